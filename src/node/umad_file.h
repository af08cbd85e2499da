#pragma once

// The kernel side of an open umad device (Documentation/infiniband/user_mad): agents, TID mapping,
// retransmission, RMPP, and the queue of received MADs. The protocol itself is implemented by the
// port's mad::ManagementInterface. Pure; runs on the thread of the interfaces.

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "mad/management_interface.h"

namespace weft::node {

/// The port that a file is opened on. Everything referenced must outlive the file.
struct UmadPortAccess {
  mad::ManagementInterface& smi;
  mad::ManagementInterface& gsi;
  const fabric::TablesBuilder& tables;
  fabric::PortIndex port;
};

/// A registration request with the parameters of the kernel's umad ABI.
struct UmadRegistration {
  std::uint8_t mgmt_class{};  // 0: the agent only sends requests, on QP1
  std::uint8_t class_version{};
  std::uint8_t rmpp_version{};
  bool does_rmpp{};  // UMAD_USER_RMPP: the program implements RMPP
  std::uint32_t oui{};
  mad::MethodSet methods{};
};

/// Address and send parameters of a MAD.
struct UmadEnvelope {
  std::uint32_t agent{};
  std::uint32_t timeout_ms{};  // for the response; 0: no response expected
  std::uint32_t retries{};
  std::uint16_t pkey_index{};
  mad::MadAddress address{};
};

/// A MAD to be read by the program. `error` is an errno if it is one that the program sent and that
/// failed.
struct UmadReceived {
  UmadEnvelope envelope;
  int error{};
  std::vector<std::byte>
      mad{};  // headers and all data of RMPP; the header alone of what comes back
};

/// One open file.
class UmadFile {
 public:
  static constexpr std::size_t kMaxAgents = 32;
  /// Limits of the receive queue; policy, not from the specification.
  static constexpr std::size_t kMaxQueued = 65'536;
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{48} << 20;

  explicit UmadFile(const UmadPortAccess& access);
  /// Unregisters all agents.
  ~UmadFile();
  UmadFile(const UmadFile&) = delete;
  UmadFile& operator=(const UmadFile&) = delete;

  /// Returns the lowest free agent number.
  [[nodiscard]] Result<std::uint32_t> register_agent(const UmadRegistration& registration);
  [[nodiscard]] Result<void> unregister_agent(std::uint32_t agent, Instant now);
  [[nodiscard]] std::size_t agents() const;
  /// An agent of this file is given requests of the class to answer.
  [[nodiscard]] bool answers(wire::ManagementClass mgmt_class) const;

  /// A MAD that cannot be sent is queued for reading at once, with the reason as errno.
  void send(const UmadEnvelope& envelope, ByteSpan mad, Instant now);

  [[nodiscard]] fabric::PortIndex port() const { return access_.port; }
  [[nodiscard]] bool is_empty() const { return received_.empty(); }
  [[nodiscard]] const UmadReceived& front() const { return received_.front(); }
  void pop();
  /// MADs dropped because the queue was full.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  class Agent;

  [[nodiscard]] static Result<mad::Registration> check(const UmadRegistration& registration);
  [[nodiscard]] Result<void> try_send(const UmadEnvelope& envelope, ByteSpan mad, Instant now);
  [[nodiscard]] Result<mad::MadAddress> destination(const UmadEnvelope& envelope) const;
  [[nodiscard]] Result<void> transact(Agent& agent, const UmadEnvelope& envelope,
                                      mad::MadMessage message, Instant now);
  void receive(std::uint32_t agent, const mad::MadAddress& source, const mad::MadMessage& message);
  void return_to_program(const UmadEnvelope& envelope, ByteSpan mad, int error);
  void queue(UmadReceived received);

  UmadPortAccess access_;
  std::array<std::unique_ptr<Agent>, kMaxAgents> agents_;
  std::deque<UmadReceived> received_;
  std::size_t queued_bytes_{};
  std::uint64_t dropped_{};
  bool is_closing_{};
};

}  // namespace weft::node
