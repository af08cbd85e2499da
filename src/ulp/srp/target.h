#pragma once

// An SRP target: ports that initiators log in to, and their channels. It has no identifiers of the
// CM and no QPs: a login comes with a TargetConnection, of IB CM or of RDMA-CM. One thread.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "scsi/target.h"
#include "ulp/srp/channel.h"
#include "ulp/srp/port_name.h"
#include "ulp/srp/target_connection.h"
#include "wire/srp/login.h"

namespace weft::srp {

/// The number of a target portal group of a port, each of which has a list of who may log in.
using GroupTag = std::uint16_t;
inline constexpr GroupTag kFirstGroup = 1;  ///< that every port begins with

inline constexpr std::uint32_t kMinRequestIu = 64;  // SRP r16a §6.2

/// srpt_tpg.
struct TargetGroup {
  bool enabled{true};
  AccessList access{};
};

/// srpt_port_attrib, and what else an administrator decides about a port.
struct PortOptions {
  std::string name{};             ///< of the administrator, as "fe80::1" or a GUID
  wire::SrpPortId target_port{};  ///< identifier extension and GUID of the I/O controller
  scsi::PortId scsi_port{1};
  std::uint64_t max_rdma_size{1U << 20};                                    ///< policy, octets
  std::uint32_t max_initiator_iu{wire::kSrpDefaultImmediateOffset + 8192};  ///< policy
  std::uint32_t max_rsp_size{256};                                          ///< policy
  std::int32_t request_limit{128};                                          ///< policy
  std::size_t max_channels{1024};                                           ///< policy
  bool allows_multichannel{true};
  bool offers_immediate_data{true};
};

/// Which form the private data of a login has.
enum class LoginForm : std::uint8_t { IbCm, RdmaCm };

struct LoginRequest {
  LoginForm form{LoginForm::IbCm};
  ByteSpan private_data{};  ///< behind the RDMA-CM header, if there is one
  std::optional<Gid> source_gid{};
  std::optional<IpAddress> source_ip{};
};

/// The target port that a login names; none: it is no login.
[[nodiscard]] std::optional<wire::SrpPortId> target_of(const LoginRequest& request);

/// What an administrator is shown of a channel.
struct ChannelStatus {
  ChannelId id{};
  GroupTag group{};
  std::string port{};  ///< its name
  Initiator initiator{};
  ChannelState state{};
  std::int32_t limit{};        ///< credits that it is to have
  std::int32_t credits{};      ///< that the initiator has
  std::int32_t outstanding{};  ///< requests that have come and not ended
  std::size_t waiting{};       ///< of these, for the RTU or for a slot
  ChannelCounters counters{};
};

/// What a target has seen since it began, of channels that have ended, too.
struct TargetCounters {
  std::uint64_t logins{};  ///< that were taken
  std::map<wire::SrpLoginRejReason, std::uint64_t> refusals{};
  ChannelCounters channels{};
};

class Target final : private ChannelOwner {
 public:
  /// The SCSI target must have the ports, and outlive this one.
  explicit Target(scsi::Target& scsi) : scsi_(scsi) {}
  ~Target();

  /// Exists. A new port takes no logins until it is enabled (srpt_make_tport, srpt_make_tpg).
  Result<void> add_port(const PortOptions& options);
  Result<void> set_enabled(const std::string& port, bool enabled);
  /// Another target port identifier of the port, as made of its GID beside that of its GUID.
  Result<void> add_name(const std::string& port, const wire::SrpPortId& name);
  /// srpt_make_tpg. Exists. An initiator is of the lowest enabled group whose list has it; all
  /// groups of a port have the same units.
  Result<void> add_group(const std::string& port, GroupTag tag);
  /// A group that is not takes no logins; sessions stay.
  Result<void> set_group_enabled(const std::string& port, GroupTag tag, bool enabled);
  /// srpt_drop_tpg: its sessions end; `done` when their channels are released.
  Result<void> remove_group(const std::string& port, GroupTag tag, std::function<void()> done);
  Result<void> allow(const std::string& port, const AccessName& name, GroupTag tag = kFirstGroup);
  Result<void> allow_anybody(const std::string& port, bool anybody, GroupTag tag = kFirstGroup);
  /// srpt_close_session: sessions of the group that nothing else on its list allows end; `done`
  /// when their commands have ended and their channels are released.
  Result<void> withdraw(const std::string& port, const AccessName& name, std::function<void()> done,
                        GroupTag tag = kFirstGroup);
  /// Sessions that their group's list does not allow end, after allow_anybody(false) as well.
  void end_strangers(const std::string& port, std::function<void()> done);
  /// srpt_release_sport: no logins any more; `done` when the last channel of the port is released.
  Result<void> release_port(const std::string& port, std::function<void()> done);

  /// srpt_cm_req_recv. A channel: the connection belongs to it. A reason: the connection was
  /// rejected, and is the caller's.
  std::expected<ChannelId, wire::SrpLoginRejReason> log_in(const std::string& port,
                                                           const LoginRequest& request,
                                                           std::shared_ptr<TargetConnection> by);
  /// Null once it is released.
  [[nodiscard]] Channel* channel(ChannelId id);
  /// Frees channels that are released; call it when nothing of a channel is on the stack.
  void collect();

  [[nodiscard]] std::size_t channels() const { return channels_.size(); }
  [[nodiscard]] std::size_t channels_of(const std::string& port) const;
  [[nodiscard]] std::vector<ChannelId> channel_ids() const;
  /// Of those that are not released, in the order of their logins.
  [[nodiscard]] std::vector<ChannelStatus> channel_status() const;
  [[nodiscard]] TargetCounters counters() const;
  void check_invariants() const;

 private:
  struct Port {
    PortOptions options{};
    bool enabled{};
    std::vector<wire::SrpPortId> names{};  // beside that of the options
    std::map<GroupTag, TargetGroup> groups{
        {kFirstGroup, TargetGroup{}}
    };

    [[nodiscard]] bool has_name(const wire::SrpPortId& name) const;
    /// Of who logs in.
    [[nodiscard]] std::optional<GroupTag> group_of(const Initiator& initiator) const;
  };
  struct Session {
    std::unique_ptr<Channel> channel{};
    std::shared_ptr<TargetConnection> connection{};
    std::string port{};
    GroupTag group{};
    Initiator initiator{};
    bool nexus_closed{};
    std::vector<std::byte> login_rsp{};     // until it is accepted
    std::vector<ChannelId> predecessors{};  // whose nexuses must be closed before it is
  };
  struct Waiter {
    std::vector<ChannelId> channels;
    std::function<void()> done;
  };

  [[nodiscard]] Result<Port*> find(const std::string& port);
  [[nodiscard]] Result<TargetGroup*> find(const std::string& port, GroupTag tag);
  [[nodiscard]] std::expected<void, wire::SrpLoginRejReason> check(const Port& port,
                                                                   const wire::SrpLoginReq& login,
                                                                   const Initiator& initiator,
                                                                   std::size_t channels_left) const;
  ChannelId open_channel(const Port& port, const wire::SrpLoginReq& login,
                         const Initiator& initiator, scsi::NexusId nexus,
                         std::shared_ptr<TargetConnection> by);
  [[nodiscard]] std::vector<ChannelId> end_predecessors(const std::string& port,
                                                        const wire::SrpLoginReq& login);
  [[nodiscard]] std::size_t siblings(const std::string& port, const wire::SrpPortId& id) const;
  void accept_if_due(Session& session);
  void wait_for(std::vector<ChannelId> channels, std::function<void()> done);
  void abort_fetches(Channel& channel, std::uint64_t lun,
                     const std::shared_ptr<PendingManagement>& pending) override;
  void handle_released(Channel& channel) override;
  void handle_nexus_closed(Channel& channel) override;

  scsi::Target& scsi_;
  std::map<std::string, Port> ports_;
  std::map<ChannelId, Session> channels_;
  std::vector<Waiter> waiters_;
  std::uint64_t next_channel_{1};
  TargetCounters counters_;  // of channels: those that are collected
};

}  // namespace weft::srp
