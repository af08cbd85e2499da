#pragma once

// A host's InfiniBand port in the place of an Omni-Path port: 16B packets and OPA MADs go as
// payloads of UD datagrams between two QPs of each host, which SA's ServiceRecords name, and what
// is flooded goes to multicast groups. All that comes is foreign, and none of it is trusted. One
// thread; not thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "mad/management_interface.h"
#include "programs/host/sa_port.h"
#include "programs/net/ud_port.h"
#include "programs/vnic/announcement.h"
#include "programs/vnic/poll_set.h"
#include "sa/sa_client.h"
#include "ulp/opa_vnic/device.h"

namespace weft::programs::vnic {

/// What was not carried, and why.
struct OpaPortCounters {
  std::uint64_t mads_sent{};
  std::uint64_t mads_received{};
  /// to a port that has not announced itself, or by a service level that InfiniBand has not
  std::uint64_t mads_unroutable{};
  std::uint64_t packets_sent{};
  std::uint64_t packets_received{};
  std::uint64_t tx_no_peer{};    ///< to a LID that nobody has announced
  std::uint64_t tx_no_group{};   ///< to a multicast LID of no group that this port is in
  std::uint64_t tx_too_long{};   ///< longer than the path's MTU
  std::uint64_t tx_refused{};    ///< that a QP did not take, or did not send
  std::uint64_t rx_truncated{};  ///< without a whole 16B header, or a MAD of another length
  std::uint64_t rx_misrouted{};  ///< whose LIDs are not those that it came by
};

class OpaPort {
 public:
  enum class Use : std::uint8_t { Mads, MadsAndPackets };
  struct Handlers {
    std::function<void(const opa_vnic::VemaPeer& from, ByteSpan mad)> mad;
    std::function<void(ByteSpan packet)> packet;
    /// The port's state or LID, groups, or who is announced.
    std::function<void()> changed;
  };

  /// NoSuchDevice: the program is on no host of a fabric. NotSupported: MADs of OPA do not fit the
  /// links.
  [[nodiscard]] static Result<std::unique_ptr<OpaPort>> open(Use use, Handlers handlers);

  void add_to(PollSet& waits) const;
  /// Takes and sends what there is. True: there is more to do at once. NoSuchDevice or Io: the
  /// fabric or the device is gone.
  [[nodiscard]] Result<bool> work(const PollSet& waits, Instant now);
  [[nodiscard]] Instant deadline() const;

  /// Its first P_Key is that of 16B packets and their groups, then management's, if that is
  /// another.
  [[nodiscard]] const sa::LocalPort& port() const { return sa_.port(); }
  [[nodiscard]] Qpn mad_qp() const { return mads_->qpn(); }
  [[nodiscard]] Qpn packet_qp() const { return packets_ ? packets_->qpn() : Qpn{}; }
  [[nodiscard]] bool has_room() const { return !packets_ || packets_->has_room(); }

  /// From now on SA has this port's record, under the host's name.
  void announce(std::string host, Instant now);
  void withdraw(Instant now);
  [[nodiscard]] bool is_announced() const { return is_announced_; }
  [[nodiscard]] bool is_idle() const { return sa_.queries() == 0; }
  /// Asks SA who is announced; not while an answer is to come.
  void look_up(Instant now);
  [[nodiscard]] const std::map<Lid, Announcement>& announced() const { return announced_; }

  /// The port is to be in these groups and no others.
  void set_groups(const std::set<Gid>& wanted, Instant now);
  /// None: not joined, or not yet.
  [[nodiscard]] std::optional<Lid> lid_of_group(const Gid& group) const;

  /// To whom has asked; to the agent of that port; or, in place of the peer's QP, to that from
  /// which a manager there has asked. The P_Key is management's, as that of the QP is.
  void send_mad(const opa_vnic::VemaPeer& to, std::vector<std::byte> mad);
  void send_mad_to_agent(Lid to, std::vector<std::byte> mad);
  void send_mad_to_manager(opa_vnic::VemaPeer to, std::vector<std::byte> mad);
  /// A 16B packet, by its DLID.
  void send_packet(std::vector<std::byte> packet, Instant now);

  [[nodiscard]] OpaPortCounters counters() const;
  /// The longest 16B packet.
  [[nodiscard]] std::size_t max_packet_bytes() const { return verbs::bytes(port().active_mtu); }

 private:
  struct Membership {
    std::optional<sa::MembershipId> id{};
    std::optional<wire::McMemberRecord> record{};
    Instant join_at{Instant::never()};  // again, after SA has refused
  };

  OpaPort(Handlers handlers, std::unique_ptr<net::UdPort> mads,
          std::unique_ptr<net::UdPort> packets, SaPort sa_mads);
  [[nodiscard]] Result<void> take_events(const PollSet& waits, Instant now);
  [[nodiscard]] Result<void> follow_port(Instant now);
  [[nodiscard]] Result<bool> take_sa_mads(const PollSet& waits, Instant now);
  void receive_mad(const mad::ReceivedDatagram& datagram);
  void receive_packet(const mad::ReceivedDatagram& datagram);
  void handle_timeouts(Instant now);
  void renew(Instant now);
  void take_announced(const std::vector<wire::ServiceRecord>& records);
  void join(const Gid& group, Membership& membership, Instant now);
  void take_membership(const Gid& group, const sa::Answer<wire::McMemberRecord>& answer,
                       Instant now);
  [[nodiscard]] Result<void> attach();
  void send_to_group(std::vector<std::byte> packet, Lid mlid);

  Handlers handlers_;
  std::unique_ptr<net::UdPort> mads_;
  std::unique_ptr<net::UdPort> packets_;  // if it carries packets
  SaPort sa_mads_;
  mad::ManagementInterface gsi_{mad::InterfaceKind::Gsi};
  sa::SaClient sa_;
  std::uint8_t reregistrations_{};

  std::string host_;
  bool wants_announcement_{};
  bool is_announced_{};
  Instant renew_at_{Instant::never()};
  bool is_looking_up_{};
  Instant next_look_{};
  std::map<Lid, Announcement> announced_;
  std::map<Lid, Qpn> peers_;     // by which packets came
  std::map<Lid, Qpn> managers_;  // by which MADs came
  std::map<Gid, Membership> groups_;
  OpaPortCounters counters_;
};

}  // namespace weft::programs::vnic
