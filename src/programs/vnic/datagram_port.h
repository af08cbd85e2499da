#pragma once

// A host's InfiniBand port in the place of an Omni-Path port: 16B packets and OPA MADs go as
// payloads of UD datagrams between two QPs of each host, which SA's ServiceRecords name, and what
// is flooded goes to multicast groups. All that comes is foreign, and none of it is trusted. One
// thread; not thread-safe.

#include <cstddef>
#include <cstdint>
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
#include "programs/vnic/opa_port.h"
#include "programs/vnic/poll_set.h"
#include "sa/sa_client.h"
#include "ulp/opa_vnic/device.h"

namespace weft::programs::vnic {

class DatagramPort final : public OpaPort {
 public:
  /// NoSuchDevice: the program is on no host of a fabric. NotSupported: MADs of OPA do not fit the
  /// links.
  [[nodiscard]] static Result<std::unique_ptr<OpaPort>> open(Use use, Handlers handlers);

  void add_to(PollSet& waits) const override;
  [[nodiscard]] Result<bool> work(const PollSet& waits, Instant now) override;
  [[nodiscard]] Instant deadline() const override;

  [[nodiscard]] bool is_omni_path() const override { return false; }
  [[nodiscard]] bool is_active() const override { return port().is_active(); }
  [[nodiscard]] Lid lid() const override { return port().lid; }
  [[nodiscard]] PKey management_pkey() const override { return port().management_pkey(); }
  [[nodiscard]] Qpn mad_qp() const override { return mads_->qpn(); }
  [[nodiscard]] Qpn packet_qp() const override { return packets_ ? packets_->qpn() : Qpn{}; }
  [[nodiscard]] bool has_room() const override { return !packets_ || packets_->has_room(); }
  [[nodiscard]] std::size_t max_packet_bytes() const override {
    return verbs::bytes(port().active_mtu);
  }

  /// By a record at SA.
  void announce(std::string host, Instant now) override;
  void withdraw(Instant now) override;
  [[nodiscard]] bool is_announced() const override { return is_announced_; }
  [[nodiscard]] bool is_idle() const override { return sa_.queries() == 0; }
  void look_up(Instant now) override;
  [[nodiscard]] const std::map<Lid, Announcement>& announced() const override { return announced_; }

  void set_groups(const std::set<FloodGroup>& groups, Instant now) override;
  [[nodiscard]] std::optional<Lid> lid_of_group(const FloodGroup& group) const override {
    return lid_of_group(group_of(group.fabric_id, group.vesw_id));
  }

  void send_mad(const opa_vnic::VemaPeer& to, std::vector<std::byte> mad) override;
  void send_mad_to_agent(Lid to, std::vector<std::byte> mad) override;
  /// In place of the peer's QP to that from which a manager there has asked.
  void send_mad_to_manager(opa_vnic::VemaPeer to, std::vector<std::byte> mad) override;
  void send_packet(std::vector<std::byte> packet, Instant now) override;

  [[nodiscard]] OpaPortCounters counters() const override;

 private:
  struct Membership {
    std::optional<sa::MembershipId> id{};
    std::optional<wire::McMemberRecord> record{};
    Instant join_at{Instant::never()};  // again, after SA has refused
  };

  DatagramPort(Handlers handlers, std::unique_ptr<net::UdPort> mads,
               std::unique_ptr<net::UdPort> packets, SaPort sa_mads);
  /// Its first P_Key is that of 16B packets and their groups, then management's, if that is
  /// another.
  [[nodiscard]] const sa::LocalPort& port() const { return sa_.port(); }
  [[nodiscard]] Result<void> take_events(const PollSet& waits, Instant now);
  [[nodiscard]] Result<void> follow_port(Instant now);
  [[nodiscard]] Result<bool> take_sa_mads(const PollSet& waits, Instant now);
  void receive_mad(const mad::ReceivedDatagram& datagram);
  void receive_packet(const mad::ReceivedDatagram& datagram);
  void handle_timeouts(Instant now);
  void renew(Instant now);
  void take_announced(const std::vector<wire::ServiceRecord>& records);
  [[nodiscard]] std::optional<Lid> lid_of_group(const Gid& group) const;
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
