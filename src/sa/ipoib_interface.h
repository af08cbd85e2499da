#pragma once

// An IPoIB interface of a host as far as finding neighbours goes (RFC 4391): it is in the broadcast
// group of its partition, says which of the host's addresses it has, and finds out who has others.
// Its QP is the host's own. Pure. One thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/time.h"
#include "mad/datagram.h"
#include "sa/local_port.h"
#include "sa/neighbors.h"
#include "sa/sa_client.h"
#include "wire/ipoib/message.h"
#include "wire/mad/mc_member_record.h"

namespace weft::sa {

/// An interface of a host, named by its port and partition: what `ib0` is.
struct InterfaceKey {
  PortKey port{};
  PKey pkey{kDefaultPKey};
  friend constexpr bool operator==(const InterfaceKey&, const InterfaceKey&) = default;
};

/// Bounds; policy.
struct InterfaceLimits {
  NeighborLimits neighbors{};
  std::size_t queued_datagrams{256};           ///< further ones are dropped
  Duration join_retry{Duration::seconds(10)};  ///< after SA has refused the broadcast group
};

/// What it saw; all only grow.
struct InterfaceCounters {
  std::uint64_t questions{};  ///< sent
  std::uint64_t answers{};    ///< sent
  std::uint64_t resolved{};
  std::uint64_t not_believed{};  ///< answers that nobody waited for, or of another than they say
  std::uint64_t not_for_us{};    ///< another QP, group, P_Key or Q_Key
  std::uint64_t malformed{};
  std::uint64_t other{};    ///< payloads of other protocols
  std::uint64_t dropped{};  ///< too many wait to be sent
};

class IpoibInterface {
 public:
  /// `sa` must outlive it. `on_work` is called when handle_timeout() or poll_transmit() is due.
  IpoibInterface(const InterfaceKey& key, Qpn qpn, SaClient& sa,
                 std::vector<InterfaceAddress> addresses, const InterfaceLimits& limits,
                 std::function<void()> on_work, Instant now);
  ~IpoibInterface();
  IpoibInterface(const IpoibInterface&) = delete;
  IpoibInterface& operator=(const IpoibInterface&) = delete;

  [[nodiscard]] const InterfaceKey& key() const { return key_; }
  [[nodiscard]] Qpn qpn() const { return qpn_; }
  [[nodiscard]] std::span<const InterfaceAddress> addresses() const { return addresses_; }
  [[nodiscard]] bool has(const IpAddress& address) const;
  /// Packets go in and out: the port is Active, and in the broadcast group.
  [[nodiscard]] bool is_up() const { return group_ && sa_.port().is_active; }
  /// Its own; zero GID before the port has one.
  [[nodiscard]] wire::IpoibHardwareAddress hardware() const;
  /// Of the broadcast group: Q_Key, MTU, rate and SL of the whole link.
  [[nodiscard]] const std::optional<wire::McMemberRecord>& group() const { return group_; }

  /// Leaves the group; to be called before the interface goes, if its port stays.
  void stop(Instant now);
  /// The port's SaClient was told of a change.
  void port_changed(Instant now);

  /// Who has the address, if that is known.
  [[nodiscard]] std::optional<Gid> find(const IpAddress& address, Instant now) const;
  /// Asks for it until then, as soon as the interface is up; false: too many are being asked for.
  [[nodiscard]] bool ask(const IpAddress& address, Instant until, Instant now);
  void stop_asking(const IpAddress& address) { neighbors_.stop_asking(address); }
  /// Addresses that were answered since the last time.
  [[nodiscard]] std::vector<IpAddress> take_resolved() { return std::exchange(resolved_, {}); }

  /// A datagram that came to the port; true if it was for this interface.
  bool handle_datagram(const mad::ReceivedDatagram& datagram, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<mad::Datagram> poll_transmit();
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] const InterfaceCounters& counters() const { return counters_; }
  [[nodiscard]] const NeighborTable& neighbors() const { return neighbors_; }

 private:
  /// Whether a join also makes the group, if SA does not have it.
  enum class Form : std::uint8_t { Join, Make };

  void join(Form form, Instant now);
  void take_group(Form form, const Answer<wire::McMemberRecord>& group, Instant now);
  void handle(const wire::ArpMessage& arp, const mad::MadAddress& source, Instant now);
  void handle(const wire::NeighborMessage& message, const mad::MadAddress& source, Instant now);
  void take_answer(const IpAddress& address, const wire::IpoibHardwareAddress& hardware,
                   const mad::MadAddress& source, Instant now);
  void send(const mad::MadAddress& to, std::vector<std::byte> payload);
  void send_question(const IpAddress& address);
  [[nodiscard]] std::optional<IpAddress> source_for(const IpAddress& address) const;
  [[nodiscard]] mad::MadAddress group_address() const;
  [[nodiscard]] mad::MadAddress answer_address(const mad::MadAddress& source) const;

  InterfaceKey key_;
  Qpn qpn_;
  SaClient& sa_;
  std::vector<InterfaceAddress> addresses_;
  InterfaceLimits limits_;
  std::function<void()> on_work_;
  Gid broadcast_;
  std::optional<MembershipId> membership_;
  Instant join_at_{Instant::never()};
  std::optional<wire::McMemberRecord> group_;
  bool was_active_{};
  NeighborTable neighbors_;
  std::vector<IpAddress> resolved_;
  std::deque<mad::Datagram> out_;
  InterfaceCounters counters_;
};

}  // namespace weft::sa
