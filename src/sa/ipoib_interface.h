#pragma once

// An IPoIB interface of a host, reduced to neighbour discovery (RFC 4391): it is a member of its
// partition's broadcast group, answers ARP and neighbour solicitations for the host's addresses,
// and resolves those of others. Its QP belongs to the host. Pure, not thread-safe.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/time.h"
#include "mad/datagram.h"
#include "sa/ip_interface.h"
#include "sa/local_port.h"
#include "sa/neighbors.h"
#include "sa/sa_client.h"
#include "wire/ipoib/hardware_address.h"
#include "wire/ipoib/message.h"
#include "wire/mad/mc_member_record.h"

namespace weft::sa {

/// Upper bounds and intervals; policy, not from the specification.
struct InterfaceLimits {
  NeighborLimits neighbors{};
  std::size_t queued_datagrams{256};           ///< send queue; datagrams above it are dropped
  Duration join_retry{Duration::seconds(10)};  ///< after SA refused the join of the broadcast group
  unsigned announcements{2};                   ///< ANNOUNCE_NUM of RFC 5227 §1.1
  Duration announce_interval{Duration::seconds(2)};  ///< ANNOUNCE_INTERVAL of the same
};

/// Statistics since construction; counters never decrease.
struct InterfaceCounters {
  std::uint64_t solicitations{};  ///< ARP requests and neighbour solicitations sent
  std::uint64_t answers{};        ///< ARP replies and neighbour advertisements sent
  std::uint64_t announcements{};  ///< of own addresses, unasked
  std::uint64_t moves{};          ///< announcements of others, whose paths were forgotten
  std::uint64_t resolved{};
  /// unsolicited answers, and answers whose sender's GID differs from the advertised one
  std::uint64_t untrusted_answers{};
  std::uint64_t misaddressed{};  ///< addressed to another QP, group, P_Key or Q_Key
  std::uint64_t malformed{};
  std::uint64_t other{};    ///< payload of another protocol
  std::uint64_t dropped{};  ///< send queue full
};

/// Neighbour discovery on one interface. The owner drives it: handle_datagram, handle_timeout,
/// poll_transmit.
class IpoibInterface final : public IpInterface {
 public:
  /// `sa` must outlive it. `on_due` is called when handle_timeout() or poll_transmit() is due.
  IpoibInterface(const InterfaceKey& key, Qpn qpn, SaClient& sa,
                 std::vector<InterfaceAddress> addresses, const InterfaceLimits& limits,
                 std::function<void()> on_due, Instant now);
  ~IpoibInterface() override;
  IpoibInterface(const IpoibInterface&) = delete;
  IpoibInterface& operator=(const IpoibInterface&) = delete;

  [[nodiscard]] const InterfaceKey& key() const override { return key_; }
  [[nodiscard]] Qpn qpn() const { return qpn_; }
  [[nodiscard]] std::span<const InterfaceAddress> addresses() const override { return addresses_; }
  /// From now on. Those that are new are announced.
  void set_addresses(std::vector<InterfaceAddress> addresses, Instant now);
  /// The port is Active and a member of the broadcast group, so datagrams can be exchanged.
  [[nodiscard]] bool is_up() const override { return group_ && sa_.port().is_active(); }
  /// Of the own hardware address: what the interface does beside datagrams (RFC 4755 §3.1).
  void set_flags(Flags<wire::IpoibFlag> flags) { flags_ = flags; }
  /// The interface's own hardware address; its GID is zero until the port has one.
  [[nodiscard]] wire::IpoibHardwareAddress hardware() const;
  [[nodiscard]] Gid gid() const override { return hardware().gid; }
  /// Record of the broadcast group, which defines Q_Key, MTU, rate and SL of the link.
  [[nodiscard]] const std::optional<wire::McMemberRecord>& group() const { return group_; }

  /// Called with the GID of who announces its address, since that may be at another LID now.
  using MoveHandler = std::function<void(const Gid& gid, Instant now)>;
  void set_move_handler(MoveHandler handler) { on_moved_ = std::move(handler); }

  /// Leaves the group. Call it before destroying the interface of a port that remains.
  void stop(Instant now);
  /// Call after the port's SaClient was updated by set_port.
  void port_changed(Instant now);
  /// Tells the link, as soon as the interface is up, who has its addresses: the port's GID has
  /// moved to another LID, so that others forget their paths to it; or the interface has come with
  /// another QP than before.
  void announce(Instant now);

  [[nodiscard]] std::optional<Gid> find(const IpAddress& address, Instant now) const override;
  [[nodiscard]] bool solicit(const IpAddress& address, Instant until, Instant now) override;
  void stop_soliciting(const IpAddress& address) override { neighbors_.stop_soliciting(address); }
  [[nodiscard]] std::vector<Found> take_found() override { return std::exchange(found_, {}); }

  /// Processes a datagram received by the port. Returns true if it was addressed to this interface.
  bool handle_datagram(const mad::ReceivedDatagram& datagram, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<mad::Datagram> poll_transmit();
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] const InterfaceCounters& counters() const { return counters_; }
  [[nodiscard]] const NeighborTable& neighbors() const { return neighbors_; }

 private:
  /// Whether to join an existing group only, or to create it if it does not exist.
  enum class Form : std::uint8_t { Join, Make };

  void join(Form form, Instant now);
  void take_group(Form form, const Answer<wire::McMemberRecord>& group, Instant now);
  void handle(const wire::ArpMessage& arp, const mad::MadAddress& source, Instant now);
  void handle(const wire::NeighborMessage& message, const mad::MadAddress& source, Instant now);
  void take_answer(const IpAddress& address, const wire::IpoibHardwareAddress& hardware,
                   const mad::MadAddress& source, Instant now);
  void send(const mad::MadAddress& to, std::vector<std::byte> payload);
  void send_solicitation(const IpAddress& address);
  void send_announcement(const IpAddress& address);
  void take_announcement(const IpAddress& address, const wire::IpoibHardwareAddress& hardware,
                         const mad::MadAddress& source, Instant now);
  [[nodiscard]] std::optional<IpAddress> source_for(const IpAddress& address) const;
  [[nodiscard]] mad::MadAddress group_address() const;
  [[nodiscard]] mad::MadAddress answer_address(const mad::MadAddress& source) const;

  InterfaceKey key_;
  Qpn qpn_;
  Flags<wire::IpoibFlag> flags_{};
  SaClient& sa_;
  std::vector<InterfaceAddress> addresses_;
  InterfaceLimits limits_;
  std::function<void()> on_due_;
  MoveHandler on_moved_;
  Gid broadcast_;
  std::optional<MembershipId> membership_;
  Instant join_at_{Instant::never()};
  unsigned announcements_left_{};
  Instant announce_at_{Instant::never()};
  std::optional<wire::McMemberRecord> group_;
  bool was_active_{};
  NeighborTable neighbors_;
  std::vector<Found> found_;
  std::deque<mad::Datagram> out_;
  InterfaceCounters counters_;
};

}  // namespace weft::sa
