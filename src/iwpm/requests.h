#pragma once

// Requests of the kernel's side that wait for the port mapper daemon. A request has two references
// when it is made, the list's and the waiter's; who finds one has a third for as long. The last
// reference takes it off the list, so that a late answer finds nothing. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "wire/iwpm/netlink_messages.h"
#include "wire/iwpm/socket_address.h"

namespace weft::iwpm {

using wire::iwpm::SocketAddress;

/// Who registers: the seed's struct iwpm_dev_data. Longer names than Linux has room for are
/// refused.
struct DeviceInfo {
  std::string device_name;     ///< up to 31 characters
  std::string interface_name;  ///< up to 15
};

/// Addresses of a connection: the seed's struct iwpm_sa_data. Mapped ones are set by the answer.
struct ConnectionAddresses {
  SocketAddress local;
  SocketAddress mapped_local;
  SocketAddress remote;
  SocketAddress mapped_remote;
  std::uint32_t flags{};  ///< wire::iwpm::kFlagNoPortMap
};

/// How a wait ended. `number` is what the seed's iwpm_wait_complete_req returns: 0, -EINVAL after a
/// timeout, or the error that the daemon gave (wire::iwpm::DaemonError), which is positive.
struct WaitResult {
  int number{};
  bool is_timeout{};
  bool operator==(const WaitResult&) const = default;
};

/// The seed's struct iwpm_nlmsg_request.
class NlmsgRequest {
 public:
  [[nodiscard]] std::uint32_t sequence() const { return sequence_; }
  [[nodiscard]] std::uint8_t client() const { return client_; }
  [[nodiscard]] Instant deadline() const { return deadline_; }
  [[nodiscard]] bool is_done() const { return is_done_; }
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] unsigned references() const { return references_; }

  // What the request is about; its maker and the callbacks use it.
  wire::iwpm::Operation operation{};
  DeviceInfo device;
  ConnectionAddresses addresses;
  std::uint32_t daemon{};  ///< the netlink address that was asked; 0: anybody

 private:
  friend class RequestList;
  std::uint32_t sequence_{};
  std::uint8_t client_{};
  unsigned references_{2};
  bool is_listed_{true};  ///< the list's reference is not yet given back
  bool is_done_{};
  int error_{};
  Instant deadline_;
};

/// Requests by their sequence numbers.
class RequestList {
 public:
  explicit RequestList(std::size_t most) : most_(most) {}

  /// The seed's iwpm_get_nlmsg_request: a request that is not done, with two references. Null when
  /// there are as many as there may be, or one has this number.
  [[nodiscard]] NlmsgRequest* get_nlmsg_request(std::uint32_t sequence, std::uint8_t client,
                                                Instant deadline);
  /// The seed's iwpm_find_nlmsg_request: a request that is not done, with a reference that the
  /// caller gives back by put(); or null.
  [[nodiscard]] NlmsgRequest* find_nlmsg_request(std::uint32_t echo_sequence);

  /// Marks it as done and gives back the list's reference. `error`: 0, or what the waiter gets.
  void complete(NlmsgRequest& request, int error);

  /// Gives back one reference.
  void put(NlmsgRequest& request);

  /// The seed's iwpm_wait_complete_req, for who does not block: none while the answer may still
  /// come. Otherwise the waiter's reference is given back, and the request may be gone.
  [[nodiscard]] std::optional<WaitResult> wait_complete_req(NlmsgRequest& request, Instant now);

  /// Objects that exist.
  [[nodiscard]] std::size_t size() const { return requests_.size(); }
  /// When the first open one expires; never, without one.
  [[nodiscard]] Instant first_deadline() const;

  void check_invariants() const;

 private:
  /// The seed's iwpm_free_nlmsg_request.
  void free_nlmsg_request(const NlmsgRequest& request);

  std::size_t most_;
  std::map<std::uint32_t, std::unique_ptr<NlmsgRequest>> requests_;
};

}  // namespace weft::iwpm
