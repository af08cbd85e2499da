#pragma once

// The driver of one program: attaches it to a fabric as a process of one simulated host, runs an
// hca::Hca for each HCA of that host, and carries packets between them and the lanes
// (docs/ARCHITECTURE.md, decisions 3 to 5, 7, 9).
//
// Any thread may call anything; objects of verbs follow the rules of verbs. A child of fork() must
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
#include "uabi/messages.h"

namespace weft::host {

/// What a process tells its owner; `hca` counts from 0 within the host. Called with locks of verbs
/// objects held: record it and return. Port events come from the control thread.
class ProcessEvents {
 public:
  virtual ~ProcessEvents() = default;
  virtual void completion_event(std::uint32_t hca, hca::CompletionQueue& cq) = 0;
  virtual void async_event(std::uint32_t hca, const hca::AsyncEvent& event) = 0;
  /// Of a target QP of another process that this one has open (Process::open_target). QpFatal is
  /// also that its process is gone. From the control thread, without locks.
  virtual void target_event(std::uint32_t /*domain*/, Qpn /*target*/,
                            hca::AsyncEventType /*type*/) {}
  /// Another process that has imported a device of this one asks for an object (uabi); and has it
  /// no more, as the owner of an imported one, too. From the control thread, without locks.
  [[nodiscard]] virtual uabi::ObjectAnswer handle_object_request(
      const uabi::ObjectRequest& question);
  virtual void device_gone(std::uint32_t /*device*/, uabi::ProcessAddress /*peer*/) {}
  /// The daemon has ended: every QP is about to fail, and nothing works any more but to destroy.
  /// `reason` is for the person who runs the program. Called once, without locks.
  virtual void fabric_gone(std::string_view reason) = 0;
  [[nodiscard]] virtual bool explains_errors() const = 0;
  virtual void explain(std::string_view reason) = 0;
};

struct ProcessOptions {
  std::string run;     // run directory
  std::string fabric;  // name of the fabric
  std::string host;    // name of the simulated host, as in the topology
  hca::DeviceLimits limits;
};

/// WEFT_RUN, WEFT_FABRIC and WEFT_HOST (else, under MPI and Slurm, the host of the rank; else h1).
[[nodiscard]] ProcessOptions options_of_environment();

/// An HCA of this process's host, as the topology describes it.
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
  std::uint32_t number{};  // by which the daemon knows it
  uabi::ProcessAddress owner;
  std::uint32_t hca{};
};

class Process {
 public:
  /// Attaches to the fabric's daemon. Starts no thread yet.
  [[nodiscard]] static Result<std::unique_ptr<Process>> open(const ProcessOptions& options,
                                                             ProcessEvents& events);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] uabi::ProcessAddress address() const;
  [[nodiscard]] std::span<const HostHca> hcas() const;

  /// From now on events of ports and of the device come, QPs or not: a thread hears the daemon.
  void start_daemon_events();

  /// The port as its record in the tables has it, and its tables' contents.
  [[nodiscard]] fabric::PortRecord port_record(std::uint32_t hca, PortNumber port) const;

  // --- CQs and QPs: made and changed through the driver, so that it can carry for them

  [[nodiscard]] Result<hca::CompletionQueue*> create_cq(
      std::uint32_t hca, std::uint32_t capacity, const hca::CompletionQueueOptions& options = {});
  [[nodiscard]] Result<void> destroy_cq(std::uint32_t hca, hca::CompletionQueue& cq);

  /// XRC SRQs as well: what comes for them comes by the lanes of any target QP of their domain.
  [[nodiscard]] Result<hca::SharedReceiveQueue*> create_xrc_srq(
      std::uint32_t hca, hca::ProtectionDomain& pd, hca::XrcDomain& domain,
      hca::CompletionQueue& cq, std::uint32_t depth, std::uint32_t max_sge);
  [[nodiscard]] Result<void> destroy_xrc_srq(std::uint32_t hca, hca::SharedReceiveQueue& srq);

  /// The XRC domain of the file under the descriptor, which all processes of the host share that
  /// open it (hca/xrc_relay.h; ibv_open_xrcd(3)). Once a process.
  [[nodiscard]] Result<hca::XrcDomain*> open_xrc_domain(std::uint32_t hca, int fd, bool creates,
                                                        bool is_exclusive);
  [[nodiscard]] Result<void> close_xrc_domain(std::uint32_t hca, hca::XrcDomain& domain);

  // Target QPs of a shared XRC domain, by name, that several processes have open (ibv_open_qp(3)).
  /// One more handle. Returns the QP if it is this process's; null: it is another's that has the
  /// domain open, which the next three ask and wait for.
  [[nodiscard]] Result<hca::Qp*> open_target(const hca::XrcDomain& domain, Qpn target);
  void close_target(std::uint32_t domain, Qpn target);
  [[nodiscard]] Result<void> modify_target(std::uint32_t domain, Qpn target,
                                           const hca::QpAttributes& attributes,
                                           hca::QpAttributeMask mask);
  [[nodiscard]] Result<hca::QpAttributes> query_target(std::uint32_t domain, Qpn target);
  /// Instead of destroy_qp for a target QP: others that have it open keep it.
  [[nodiscard]] Result<void> release_target(std::uint32_t hca, hca::Qp& target);

  [[nodiscard]] Result<hca::Qp*> create_qp(std::uint32_t hca, const hca::QpInit& init);
  [[nodiscard]] Result<void> destroy_qp(std::uint32_t hca, hca::Qp& qp);
  [[nodiscard]] Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                       hca::QpAttributeMask mask);
  /// attach / detach: also joins the port to the group's tree while any QP is attached.
  [[nodiscard]] Result<void> attach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                              Lid mlid);
  [[nodiscard]] Result<void> detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                              Lid mlid);

  // --- devices of several processes (foreign/imports.h)

  /// Others may import the open device that has this command descriptor; and not any more.
  void share_device(std::uint32_t hca, int command);
  void unshare_device(std::uint32_t hca, int command);
  /// NotFound: no process of this host shares a device with that descriptor.
  [[nodiscard]] Result<ImportedDevice> import_device(int command);
  void leave_device(const ImportedDevice& device);
  /// Asks its owner, and waits.
  [[nodiscard]] Result<uabi::ObjectAnswer> ask_for_object(const ImportedDevice& device,
                                                          uabi::ImportVerb verb,
                                                          std::uint32_t handle);

  // --- the data path

  /// Qp::post_send, and carries what may go.
  [[nodiscard]] Result<void> post_send(hca::Qp& qp, const hca::SendWr& wr);

  /// After Qp::post_send: carries what may go.
  void kick(hca::Qp& qp);

  /// The application polls a CQ that is empty: looks at the lanes that can complete something there
  /// and serves what came.
  void make_progress(hca::CompletionQueue& cq);

  /// Packets that were sent and have not arrived, on links that take time.
  [[nodiscard]] std::uint32_t packets_under_way() const;

  /// For a program that ends: waits, not for long, until what it has sent has arrived.
  void finish_sending();

  /// For a program that ends: if the fabric went first and it was not told yet, it is now.
  void report_if_fabric_gone();

  /// The application armed a CQ or is about to wait: the progress thread takes over at once.
  void before_application_waits();

  /// Policy (docs/ARCHITECTURE.md, decision 4).
  static constexpr Duration kNap = Duration::microseconds(50);
  static constexpr Duration kPollingLease = Duration::microseconds(200);
  static constexpr Duration kFreshPoll = Duration::nanoseconds(500);

  struct Impl;

 private:
  explicit Process(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::host
