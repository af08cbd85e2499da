#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "fabric/tables.h"
#include "hca/hca.h"
#include "host/daemon_connection.h"
#include "host/fabric_map.h"
#include "host/foreign/local_objects.h"
#include "host/foreign/shared_targets.h"
#include "host/hca_set.h"
#include "host/held_events.h"
#include "host/lane_binder.h"
#include "host/lane_table.h"
#include "host/multicast_groups.h"
#include "host/packet_receiver.h"
#include "host/packet_sender.h"
#include "host/progress_state.h"
#include "host/progress_thread.h"
#include "host/qp_table.h"
#include "host/qp_timers.h"

namespace weft::host {

/// CQs, QPs and XRC SRQs, made, changed and destroyed through the driver: the engines have them,
/// and the driver carries packets, timers and events for them from then on. Holds no lock of its
/// own; any thread, without locks of the driver held.
class VerbsObjects final : public LocalObjects {
 public:
  struct Parts {
    const HcaSet& hcas;
    const FabricMap& map;
    QpTable& qps;
    LaneTable& lanes;
    LaneBinder& binder;
    PacketSender& sender;
    PacketReceiver& receiver;
    QpTimers& timers;
    HeldEvents& held_events;
    MulticastGroups& groups;
    SharedTargets& shared_targets;
    DaemonConnection& daemon;
    ProgressThread& thread;
    ProgressState& progress;
  };

  explicit VerbsObjects(const Parts& parts) : parts_(parts) {}

  // As host::Process has them.

  [[nodiscard]] Result<hca::CompletionQueue*> create_cq(std::uint32_t hca, std::uint32_t capacity,
                                                        const hca::CompletionQueueOptions& options);
  [[nodiscard]] Result<void> retire_cq(hca::CompletionQueue& cq);
  [[nodiscard]] Result<void> destroy_cq(std::uint32_t hca, hca::CompletionQueue& cq);
  [[nodiscard]] Result<hca::SharedReceiveQueue*> create_xrc_srq(
      std::uint32_t hca, hca::ProtectionDomain& pd, hca::XrcDomain& domain,
      hca::CompletionQueue& cq, std::uint32_t depth, std::uint32_t max_sge);
  [[nodiscard]] Result<void> destroy_xrc_srq(std::uint32_t hca, hca::SharedReceiveQueue& srq);
  [[nodiscard]] Result<hca::Qp*> create_qp(std::uint32_t hca, const hca::QpInit& init);
  [[nodiscard]] Result<void> destroy_qp(std::uint32_t hca, hca::Qp& qp) override;
  [[nodiscard]] Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                       hca::QpAttributeMask mask) override;
  [[nodiscard]] Result<void> attach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                              Lid mlid);
  [[nodiscard]] Result<void> detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                              Lid mlid);

  // For objects that several processes share.

  void start_serving() override;
  [[nodiscard]] hca::Hca& engine(std::uint32_t hca) override { return parts_.hcas.engine(hca); }
  void carry_for_proxy(std::uint32_t hca, hca::Qp& qp) override;
  void for_each_qp_of(std::uint32_t domain, const std::function<bool(hca::Qp&)>& visit) override;

  // On the control thread.

  /// The tables changed: a LID may be new, or another node's.
  void rebind_all();
  /// The daemon is gone: every QP fails. One that is made or changed later asks for itself whether
  /// the daemon is gone.
  void fail_all();

 private:
  void take_arrived(const QpDriverState& qp_state);
  [[nodiscard]] std::optional<fabric::PortIndex> port_index_of(const QpDriverState& qp_state) const;

  const Parts parts_;
};

}  // namespace weft::host
