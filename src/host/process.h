#pragma once

// The driver of one program: attaches it to a fabric as a process of one simulated host, runs an
// hca::Hca for each HCA of that host, and carries packets between these and the lanes to other
// processes (docs/ARCHITECTURE.md, decisions 3 to 5, 7, 9).
//
// Any thread may call anything; verbs objects follow the rules of verbs. A child of fork() must
// call nothing (os/fork_boundary.h).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "fabric/tables.h"
#include "hca/hca.h"
#include "host/managed_port.h"
#include "uabi/messages.h"

namespace weft::host {

/// Notifications from a process to its owner; `hca` counts from 0 within the host. Called with
/// locks of verbs objects held, unless noted: record the notification and return. Port events come
/// from the control thread.
class ProcessEvents {
 public:
  virtual ~ProcessEvents() = default;
  /// An armed CQ has an event (HcaEvents::completion_event).
  virtual void completion_event(std::uint32_t hca, hca::CompletionQueue& cq) = 0;
  /// See HcaEvents::async_event; also reports events of ports and of the device.
  virtual void async_event(std::uint32_t hca, const hca::AsyncEvent& event) = 0;
  /// An event of another process's target QP that this process has open (Process::open_target).
  /// QpFatal also means that its process is gone. On the control thread, without locks.
  virtual void target_event(std::uint32_t /*domain*/, Qpn /*target*/,
                            hca::AsyncEventType /*type*/) {}
  /// Handles a request of another process that has imported a device of this one (uabi). On the
  /// control thread, without locks.
  [[nodiscard]] virtual uabi::ObjectAnswer handle_object_request(
      const uabi::ObjectRequest& question);
  /// Process `peer` has given up an imported device of this one, or was the owner of an imported
  /// device and is gone. On the control thread, without locks.
  virtual void device_gone(std::uint32_t /*device*/, uabi::ProcessAddress /*peer*/) {}
  /// The daemon has ended: every QP is about to fail, and only destruction works from now on.
  /// `reason` is for the user. Called once, without locks.
  virtual void fabric_gone(std::string_view reason) = 0;
  [[nodiscard]] virtual bool explains_errors() const = 0;
  virtual void explain(std::string_view reason) = 0;
};

/// Arguments of Process::open().
struct ProcessOptions {
  std::string run;     // run directory
  std::string fabric;  // name of the fabric
  std::string host;    // name of the simulated host, as in the topology
  hca::DeviceLimits limits;
  /// Whether peers place into this process's memory by themselves, and it into theirs, where the
  /// fabric allows it (docs/ARCHITECTURE.md, decision 18).
  hca::PlacementPolicy placement{hca::PlacementPolicy::Always};
  /// What is placed may go without a system call, through pages that both processes map.
  bool shares_pages{true};
};

/// The options from WEFT_RUN, WEFT_FABRIC, WEFT_HOST and WEFT_PLACEMENT (`auto`, as without
/// it, `direct`, `cma`, which is that by system calls alone, or all are packets). Without
/// WEFT_HOST, the host is that of the rank under MPI or Slurm, else h1.
[[nodiscard]] ProcessOptions options_of_environment();

/// An HCA of this process's host, as in the topology.
struct HostHca {
  std::string name;
  Guid node_guid;
  Guid system_image_guid;
  std::uint8_t port_count{};
  std::vector<IpAddress> addresses;  ///< IPv4, of its ports in order (fabric/addresses.h)
  hca::Hca* engine{};
};

/// A device that another process has opened (ibv_import_device(3)).
struct ImportedDevice {
  std::uint32_t number{};  // at the daemon
  uabi::ProcessAddress owner;
  std::uint32_t hca{};
};

/// A program's attachment to a fabric. See above for its threading rule.
class Process {
 public:
  /// Attaches to the fabric's daemon. Does not start a thread yet.
  [[nodiscard]] static Result<std::unique_ptr<Process>> open(const ProcessOptions& options,
                                                             ProcessEvents& events);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// This process's address: node and slot.
  [[nodiscard]] uabi::ProcessAddress address() const;
  /// The HCAs of this process's host, in the order of the topology.
  [[nodiscard]] std::span<const HostHca> hcas() const;

  /// Starts the control thread, so that events of ports and of the device come even without QPs.
  void start_daemon_events();

  /// What the SMA knows of a port besides, asked of the daemon (host/managed_port.h).
  [[nodiscard]] Result<ManagedPort> managed_port(std::uint32_t hca, PortNumber port) const;
  /// A capture is open that may see what is sent from now on.
  [[nodiscard]] bool has_captures() const;
  /// The record of the port in the tables.
  [[nodiscard]] fabric::PortRecord port_record(std::uint32_t hca, PortNumber port) const;

  /// `region` has been registered on this thread: peers may come to map its memory. Then
  /// forget_region(), once it is deregistered. With no locks held.
  void note_region(const hca::MemoryRegion& region);
  void forget_region(const void* region);

  // --- CQs and QPs: made and changed through the driver, which carries their packets

  /// Creates a CQ on an HCA, and its driver state.
  [[nodiscard]] Result<hca::CompletionQueue*> create_cq(
      std::uint32_t hca, std::uint32_t capacity, const hca::CompletionQueueOptions& options = {});
  /// The first half of destroy_cq(): refused while QPs or WQs use the CQ; after it no event of the
  /// CQ comes, but the CQ may still be polled by who handles one that came.
  [[nodiscard]] Result<void> retire_cq(hca::CompletionQueue& cq);
  [[nodiscard]] Result<void> destroy_cq(std::uint32_t hca, hca::CompletionQueue& cq);

  /// XRC SRQs as well: their messages come by the lane of any target QP of their domain.
  [[nodiscard]] Result<hca::SharedReceiveQueue*> create_xrc_srq(
      std::uint32_t hca, hca::ProtectionDomain& pd, hca::XrcDomain& domain,
      hca::CompletionQueue& cq, std::uint32_t depth, std::uint32_t max_sge);
  [[nodiscard]] Result<void> destroy_xrc_srq(std::uint32_t hca, hca::SharedReceiveQueue& srq);

  /// Opens the XRC domain of the file `fd`, which is shared by all processes of the host that open
  /// it (hca/xrc_relay.h; ibv_open_xrcd(3)). Once per process and file.
  [[nodiscard]] Result<hca::XrcDomain*> open_xrc_domain(std::uint32_t hca, int fd, bool creates,
                                                        bool is_exclusive);
  [[nodiscard]] Result<void> close_xrc_domain(std::uint32_t hca, hca::XrcDomain& domain);

  // Target QPs of a shared XRC domain, by name, that several processes have open (ibv_open_qp(3)).
  /// One more handle. Returns the QP if it is in this process. Null: it is in another process that
  /// has the domain open; the next three functions ask that process, and wait.
  [[nodiscard]] Result<hca::Qp*> open_target(const hca::XrcDomain& domain, Qpn target);
  /// Closes a handle of open_target() on another process's QP.
  void close_target(std::uint32_t domain, Qpn target);
  [[nodiscard]] Result<void> modify_target(std::uint32_t domain, Qpn target,
                                           const hca::QpAttributes& attributes,
                                           hca::QpAttributeMask mask);
  [[nodiscard]] Result<hca::QpAttributes> query_target(std::uint32_t domain, Qpn target);
  /// Replaces destroy_qp for a target QP, which stays if other processes have it open.
  [[nodiscard]] Result<void> release_target(std::uint32_t hca, hca::Qp& target);

  /// Creates a QP on an HCA, and its driver state.
  [[nodiscard]] Result<hca::Qp*> create_qp(std::uint32_t hca, const hca::QpInit& init);
  /// Destroys a QP once nothing delivers to it or transmits for it.
  [[nodiscard]] Result<void> destroy_qp(std::uint32_t hca, hca::Qp& qp);
  /// Modifies a QP; on the way to RTR binds it to its lane.
  [[nodiscard]] Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                       hca::QpAttributeMask mask);
  /// Attach also joins the port to the group's tree, and detach of the last QP leaves it.
  [[nodiscard]] Result<void> attach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                              Lid mlid);
  [[nodiscard]] Result<void> detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                              Lid mlid);

  // --- devices of several processes (foreign/imports.h)

  /// From share_device() to unshare_device(), other processes may import the open device that has
  /// this command descriptor.
  void share_device(std::uint32_t hca, int command);
  void unshare_device(std::uint32_t hca, int command);
  /// NotFound if no process of this host shares a device with that descriptor.
  [[nodiscard]] Result<ImportedDevice> import_device(int command);
  /// Gives up an imported device.
  void leave_device(const ImportedDevice& device);
  /// Asks the owner of the device, and waits.
  [[nodiscard]] Result<uabi::ObjectAnswer> ask_for_object(const ImportedDevice& device,
                                                          uabi::ImportVerb verb,
                                                          std::uint32_t handle);

  // --- the data path

  /// Qp::post_send, and sends what may go.
  [[nodiscard]] Result<void> post_send(hca::Qp& qp, const hca::SendWr& wr);

  /// Call after Qp::post_send: sends what may go.
  void kick(hca::Qp& qp);

  /// The application polls a CQ that is empty: looks at the lanes that can complete something
  /// there, and delivers what came.
  void make_progress(hca::CompletionQueue& cq);

  /// How many packets were sent and have not arrived, on links that take time.
  [[nodiscard]] std::uint32_t packets_under_way() const;

  /// For a program that exits: waits for a short time until everything sent has arrived.
  void finish_sending();

  /// The fabric is gone, or has sent this program away since its host is.
  [[nodiscard]] bool is_fabric_gone() const;

  /// For a program that ends: reports to it that the fabric is gone, unless it is not or the
  /// program was told already.
  void report_if_fabric_gone();

  /// The application has armed a CQ or is about to wait: the progress thread takes over at once.
  void before_application_waits();

  /// Policy (docs/ARCHITECTURE.md, decision 4): how long an application that has polled is taken
  /// for one that polls. A nap lasts as long. Shorter ones cost more than their time: a CPU that
  /// is idle for some 50 us only takes no thread from another CPU (newidle balancing), so that on
  /// two CPUs both ends of a connection stay on one.
  static constexpr Duration kPollingLease = Duration::microseconds(200);
  static constexpr Duration kNap = kPollingLease;

  struct Impl;

 private:
  explicit Process(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::host
