#pragma once

#include <array>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/function_report.h"
#include "daemon/ibsim/server.h"
#include "daemon/log.h"
#include "daemon/mad_capture.h"
#include "daemon/namespaces/host_makers.h"
#include "daemon/namespaces/kept_namespaces.h"
#include "daemon/namespaces/process_ender.h"
#include "daemon/netlink/census.h"
#include "daemon/netlink/server.h"
#include "daemon/offences.h"
#include "daemon/omni_path/channel.h"
#include "daemon/rdma_cm/channel.h"
#include "daemon/status.h"
#include "daemon/traffic_counters.h"
#include "daemon/umad/channel.h"
#include "daemon/umad/is_sm_files.h"
#include "fabric/counters.h"
#include "fabric/faults.h"
#include "host_view/function_files.h"
#include "node/fabric.h"
#include "node/host_view.h"
#include "node/local_services.h"
#include "node/port_mappers.h"
#include "node/shared_devices.h"
#include "node/xrc_domains.h"

namespace weft::daemon {

/// A capture of one port for one `weft capture`.
struct Capture {
  Client* reader{};
  fabric::PortIndex port;
  std::set<Client*> not_ready;  // programs that have not yet opened their tap
};

/// The interface that a connection carries.
struct CarriedInterface {
  fabric::NodeIndex host;
  fabric::PortIndex port;
  PKey pkey;
  bool operator==(const CarriedInterface&) const = default;
};

/// The resolver of a host, and where it shows its paths.
struct Publisher {
  fabric::NodeIndex host;
  SharedFd file;
  os::Mapping memory;
};

/// A program at an Omni-Path port.
struct OmniPathProgram {
  std::shared_ptr<OmniPathChannel> channel;
  uabi::OmniPathPortState state;  // as it was told last
  bool watches_ports{};
  std::uint64_t listed_changes{};  // when it last asked for ports
  bool is_told{};                  // that there are others since
};

/// The daemon's state and message handlers. One thread: everything runs on its event loop.
class Daemon::Impl {
 public:
  struct IbsimParts {
    IbsimLocation place;
    os::UniqueFd control;
  };
  /// Resources acquired by `create`.
  struct Parts {
    std::unique_ptr<TrafficCounters> counters;
    std::unique_ptr<node::Fabric> fabric;
    os::UniqueFd lock;
    os::UniqueFd listener;
    os::UniqueFd netlink_listener;
    std::optional<IbsimParts> ibsim;  // none: nobody speaks its protocol
    os::UniqueFd clocks;
    os::Mapping clock_memory;
    os::UniqueFd fault_counters;
    os::Mapping fault_memory;
  };
  Impl(DaemonOptions options, Parts parts);
  ~Impl();
  /// Adds the fault rules of the topology.
  [[nodiscard]] Result<void> begin_faults();
  void run();

 private:
  void accept();
  bool accept_one();
  void serve(os::UniqueFd connection, pid_t pid);
  [[nodiscard]] std::shared_ptr<Requester> requester_of(pid_t pid);
  void handle_end(Client& client);

  // --- the table of requests (daemon_dispatch.cc)
  struct Dispatch;
  void handle(Client& client, host::Received received);

  // --- programs (daemon_programs.cc)
  void hello(Client& client, const uabi::Hello& hello);
  [[nodiscard]] Result<void> admit(Client& client, const uabi::Hello& hello);
  void open_lane(Client& client, const uabi::OpenLane& request);
  void join_group(Client& client, const uabi::JoinGroup& request);
  void leave_group(Client& client, const uabi::LeaveGroup& request);
  void report_peer(Client& reporter, const uabi::ReportPeer& report);
  void note_bad_keys(Client& client, const uabi::BadKeys& report);
  void send_members(Lid mlid);
  void publish();
  void remove_program(Client& client);
  [[nodiscard]] Client* client_of(node::ProcessId process) const;
  [[nodiscard]] ProgramName name_of(const Client& client) const;
  void record_offence(const Client& offender, std::string_view what, std::uint64_t from = 1);

  // --- management (daemon_management.cc)
  [[nodiscard]] node::ManagementPlane& management() { return fabric_->management(); }
  void run_management();
  void settle_management();
  void wait_for_management();
  void post_management();
  void schedule_publication();

  // --- programs that speak MADs (daemon_umad.cc)
  [[nodiscard]] Result<fabric::NodeIndex> umad_node(std::uint32_t version,
                                                    const std::string& name) const;
  void list_umad_devices(Client& client, const uabi::ListUmadDevices& request);
  void describe_umad_device(Client& client, const uabi::DescribeUmadDevice& request);
  [[nodiscard]] Result<std::string> watch_is_sm(fabric::NodeIndex node, const std::string& name,
                                                const std::string& device, PortNumber number);
  void find_is_sm(Client& client, const uabi::FindIsSm& request);
  void open_umad(Client& client, const uabi::OpenUmad& request);
  void register_umad_agent(Client& client, const uabi::RegisterUmadAgent& request);
  void unregister_umad_agent(Client& client, const uabi::UnregisterUmadAgent& request);
  void update_device_management(fabric::PortIndex port);
  void flush_open_ports();
  void close_umad(Client& client);

  // --- RDMA-CM (daemon_rdma_cm.cc)
  class RdmaCmRequest;
  class OrphanedRdmaCmRequest;
  [[nodiscard]] RdmaCmChannel* rdma_cm_channel_of(cm::RdmaCmId id, RdmaCmChannel& asking);
  [[nodiscard]] cm::RdmaCm& rdma_cm_of(fabric::NodeIndex host);
  template <class Message>
  void on_rdma_cm(Client& client, const Message& request);
  void open_rdma_cm(Client& client, const uabi::OpenRdmaCm& request);
  void close_rdma_cm(Client& client);
  void communication_established(Client& client, const uabi::CommunicationEstablished& message);
  [[nodiscard]] std::vector<ConnectionStatus> connection_statuses();
  [[nodiscard]] std::vector<ManagerStatus> manager_statuses();

  // --- RDMA netlink (daemon_netlink.cc)
  void start_netlink(os::UniqueFd listener);
  void wait_for_port_mappers();
  void handle_netlink(NetlinkServer::Id socket, std::vector<std::byte> datagram,
                      const std::function<void()>& done);
  void answer_netlink(NetlinkServer::Id socket, const node::NetlinkSender& sender,
                      ByteSpan datagram, const ObjectCensus::Answers& held);
  [[nodiscard]] std::vector<node::ProcessId> programs_with_devices(fabric::NodeIndex host) const;
  void add_programs(host_view::HostView& view, fabric::NodeIndex host,
                    const ObjectCensus::Answers& held);
  void add_cm_ids(host_view::HostView& view, fabric::NodeIndex host);
  void take_held_objects(Client& client, const uabi::ObjectsHeld& part);

  // --- programs with ibsim's protocol (daemon_ibsim.cc)
  void start_ibsim(IbsimParts parts);
  void update_is_sm(fabric::PortIndex port);

  // --- XRC domains of several processes (daemon_xrc.cc)
  void open_xrc_domain(Client& client, const uabi::OpenXrcDomain& request, os::UniqueFd file);
  void close_xrc_domain(Client& client, const uabi::CloseXrcDomain& request);
  void relay_xrc(Client& client, uabi::XrcRelay message);
  void notify_xrc_members(node::ProcessId of, uabi::XrcRelay message);
  void leave_xrc_domain(node::ProcessId process, std::uint32_t domain);
  void leave_xrc_domains(node::ProcessId process);

  // --- verbs objects that several processes use (daemon_objects.cc)
  template <class Message>
  void relay_target(Client& client, Message message);
  void share_device(Client& client, const uabi::ShareDevice& request, os::UniqueFd file);
  void import_device(Client& client, const uabi::ImportDevice& request, os::UniqueFd file);
  void close_device(Client& client, const uabi::LeaveDevice& request);
  template <class Message>
  void relay_object(Client& client, Message message);
  void leave_device(node::ProcessId process, std::uint32_t device, bool wholly);
  void leave_devices(node::ProcessId process);

  // --- hosts as namespaces (daemon_namespaces.cc)
  [[nodiscard]] static std::string make_fabric_id(const std::string& directory);
  [[nodiscard]] KeptNamespaces::Handlers namespace_handlers();
  [[nodiscard]] Result<fabric::NodeIndex> namespace_host(std::uint32_t version,
                                                         const std::string& name) const;
  void ask_namespaces(Client& client, const uabi::AskNamespaces& request);
  void send_namespaces(Client& client, fabric::NodeIndex host);
  void keep_fabric_namespaces(Client& client, const uabi::KeepFabricNamespaces& request,
                              std::array<os::UniqueFd, 2> descriptors);
  void keep_host_namespaces(Client& client, const uabi::KeepHostNamespaces& request,
                            std::array<os::UniqueFd, uabi::kKeepHostDescriptors> descriptors);
  void leave_host_makers(const Client& client);
  // --- files of virtual functions in hosts' /sys (daemon_functions.cc)
  [[nodiscard]] host_view::HostView view_host(fabric::NodeIndex host,
                                              node::WithCounters counters) const;
  [[nodiscard]] int write_function_file(fabric::NodeIndex host, const std::string& path,
                                        std::string_view text);
  [[nodiscard]] Result<void> change_functions(fabric::NodeIndex host,
                                              const host_view::FunctionWrite& write);
  [[nodiscard]] std::string hosts_file_path() const;
  void write_hosts_file();
  void follow_hosts();
  void log_ended(const ProcessEnder::Ended& ended);

  // --- addresses that programs carry for hosts (daemon_addresses.cc)
  void carry_addresses(Client& client, const uabi::CarryAddresses& request);
  [[nodiscard]] Result<void> take_addresses(Client& client, const uabi::CarryAddresses& request);
  void take_neighbor(Client& client, const uabi::TellNeighbor& message);
  void hold_groups(Client& client, const uabi::HoldGroups& message);
  void drop_addresses(Client& client);

  // --- paths that resolvers show (daemon_published_paths.cc)
  void publish_paths(Client& client, const uabi::PublishPaths& request, os::UniqueFd file);
  [[nodiscard]] Result<void> take_published_paths(Client& client, const uabi::PublishPaths& request,
                                                  os::UniqueFd file);
  [[nodiscard]] const Publisher* publisher_on(fabric::NodeIndex host) const;
  void ask_published_paths(Client& client, const uabi::AskPublishedPaths& request);
  void drop_published_paths(Client& client);

  // --- programs at Omni-Path ports (daemon_omni_path.cc)
  void ask_omni_path_ports(Client& client, const uabi::AskOmniPathPorts& request);
  [[nodiscard]] Result<fabric::PortIndex> find_omni_path_port(
      const uabi::AttachOmniPath& request) const;
  void attach_omni_path(Client& client, const uabi::AttachOmniPath& request);
  void join_omni_path_group(Client& client, const uabi::JoinOmniPathGroup& request);
  void leave_omni_path_group(Client& client, const uabi::LeaveOmniPathGroup& request);
  void set_omni_path_capabilities(Client& client, const uabi::SetOmniPathCapabilities& request);
  void serve_omni_path_programs();
  void tell_omni_path_programs();
  void close_omni_path(Client& client);

  // --- commands (daemon_commands.cc)
  void query(Client& client, const uabi::Query& request);
  void query_functions(Client& client);
  void query_qps(Client& client, std::vector<ProgramStatus> programs);
  [[nodiscard]] std::map<fabric::NodeIndex, HostUse> uses_of_hosts(
      const ObjectCensus::Answers& held) const;
  void start_capture(Client& client, const uabi::StartCapture& request);
  void add_source(std::uint32_t id, Capture& capture, Client& program);
  void add_mads(std::uint32_t id, Capture& capture);
  void add_ring(const Capture& capture, Result<os::UniqueFd> memory);
  void tap_ready(Client& client, const uabi::TapReady& message);
  void add_fault(Client& client, const uabi::AddFault& request);
  void clear_faults(Client& client, const uabi::ClearFaults& request);
  void change_port(Client& client, const uabi::ChangePort& request);
  void change_node(Client& client, const uabi::ChangeNode& request);
  void follow_change_of_nodes();
  void drop_programs_of_removed_hosts();
  [[nodiscard]] std::vector<fabric::OwnedCounterPage> counter_pages() const;
  [[nodiscard]] Result<std::uint32_t> begin_fault(const fabric::FaultDescription& fault);
  void wait_for_end_of_faults();
  void answer(Client& client, std::string_view text);
  void send_live_if_ready(Client& reader, bool time_is_up);
  void end_captures(Client& reader);
  void down(Client& client, const uabi::Down& request);
  /// Ends the programs in hosts' namespaces, but `requester`; reports what came of it, and ends the
  /// loop.
  void stop(std::optional<pid_t> requester, std::function<void(std::string)> report);

  [[nodiscard]] const fabric::TablesView& view() const { return *view_; }

  DaemonOptions options_;
  std::string directory_;
  std::unique_ptr<TrafficCounters> counters_;  // read by the fabric's agents
  std::unique_ptr<node::Fabric> fabric_;
  MadCapture mad_capture_;
  os::UniqueFd lock_;
  os::UniqueFd reserve_fd_;  // given up for a moment when there are no descriptors left
  Log log_;
  Offences offences_;
  asio::io_context loop_;
  asio::posix::stream_descriptor listener_;
  asio::posix::stream_descriptor lifeline_;
  asio::signal_set signals_;
  SharedFd tables_;
  SharedFd clocks_;  // departure clocks of all links
  os::Mapping clock_memory_;
  SharedFd fault_counters_;
  os::Mapping fault_memory_;
  fabric::FaultCounters faults_hit_;
  asio::steady_timer fault_timer_;  // until the next rule expires
  std::vector<std::byte> image_;
  std::optional<fabric::TablesView> view_;
  std::set<std::shared_ptr<Client>> clients_;
  std::map<pid_t, std::shared_ptr<Requester>> requesters_;
  std::map<node::ProcessId, Client*> programs_;
  asio::steady_timer management_timer_;
  asio::steady_timer publish_timer_;
  bool management_is_posted_{};
  bool publication_is_due_{};
  Duration publishing_takes_{};  // duration of the last publication
  Instant published_at_{};
  std::map<Client*, std::shared_ptr<UmadChannel>> open_ports_;
  IsSmFiles is_sm_files_;
  std::map<Client*, std::unique_ptr<RdmaCmChannel>> rdma_cm_channels_;
  std::uint32_t last_rdma_cm_channel_{};
  std::unique_ptr<IbsimServer> ibsim_;
  std::unique_ptr<NetlinkServer> netlink_;
  std::optional<node::LocalServices> local_services_;  // over its sockets
  std::optional<node::PortMappers> port_mappers_;      // the same
  asio::steady_timer port_mapper_timer_{loop_};
  ObjectCensus census_{loop_};
  std::deque<std::pair<node::ProcessId, ProgramName>> recently_detached_;  // most recent last
  node::XrcDomains xrc_domains_;
  std::map<std::uint32_t, os::UniqueFd> xrc_files_;  // that name them
  node::SharedDevices shared_devices_;
  std::map<std::uint32_t, os::UniqueFd> device_files_;  // that name them
  std::map<std::uint32_t, Capture> captures_;
  // captures waiting for programs
  std::map<Client*, std::unique_ptr<asio::steady_timer>> not_live_;
  std::uint32_t next_capture_{1};
  std::map<Client*, CarriedInterface> carriers_;
  std::map<Client*, Publisher> publishers_;  // of paths
  std::map<Client*, OmniPathProgram> omni_path_programs_;
  std::uint64_t omni_path_told_{};  // changes of the Omni-Path part of which they were told
  std::string fabric_id_;
  std::uint32_t last_hub_port_{};
  HostMakers host_makers_;
  KeptNamespaces namespaces_;
  ProcessEnder ender_;
  bool is_stopping_{};
};

[[nodiscard]] inline uabi::ProcessAddress address_of(node::ProcessId process) {
  return {.node = process.host.value(), .slot = process.slot};
}
[[nodiscard]] inline node::ProcessId process_of(uabi::ProcessAddress address) {
  return {.host = fabric::NodeIndex{address.node}, .slot = address.slot};
}

}  // namespace weft::daemon
