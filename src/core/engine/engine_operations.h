#pragma once

#include "core/engine/engine.h"
#include "core/operations.h"
#include "core/wq.h"

namespace weft::core::engine {

/// The verbs of an engine by what they are about; engine_operations() puts them together.
struct EngineOperations {
  static void add_device(DeviceOperations& operations);
  static void add_objects(DeviceOperations& operations);
  static void add_memory(DeviceOperations& operations);
  static void add_fmrs(DeviceOperations& operations);
  static void add_integrity(DeviceOperations& operations);
  static void add_qps(DeviceOperations& operations);

  static std::atomic<Qp*>& qp_slot(Engine& engine, Qpn qpn) { return *engine.qp_slot(qpn); }
  static Qp* find_qp(Engine& engine, Qpn qpn) {
    const std::atomic<Qp*>* const slot = engine.qp_slot(qpn);
    return slot != nullptr ? slot->load(std::memory_order_acquire) : nullptr;
  }
  /// Before an integrity region is registered: its attributes count from now on.
  static Result<void> sign(Mr& mr);
  static void forget(Engine& engine, const void* object) { engine.forget(object); }
  /// Null: the ports have none.
  static PortManagement* management(const Engine& engine) { return engine.management_; }
  static Result<void> modify_port(Device& device, PortNumber port,
                                  const PortModification& modification);
  static Result<void> modify_device(Device& device, const DeviceModification& modification);
};

// The engine's object behind one of the core's.
[[nodiscard]] inline hca::ProtectionDomain& engine_pd(const Pd& pd) {
  return *static_cast<hca::ProtectionDomain*>(pd.driver_data);
}
[[nodiscard]] inline hca::CompletionQueue& engine_cq(const Cq& cq) {
  return *static_cast<hca::CompletionQueue*>(cq.driver_data);
}
[[nodiscard]] inline hca::SharedReceiveQueue& engine_srq(const Srq& srq) {
  return *static_cast<hca::SharedReceiveQueue*>(srq.driver_data);
}
[[nodiscard]] inline hca::XrcDomain& engine_xrcd(const Xrcd& xrcd) {
  return *static_cast<hca::XrcDomain*>(xrcd.driver_data);
}
[[nodiscard]] inline hca::IndirectionTable& engine_table(const IndirectionTable& table) {
  return *static_cast<hca::IndirectionTable*>(table.driver_data);
}
[[nodiscard]] inline hca::Qp& engine_qp(const Qp& qp) {
  return *static_cast<hca::Qp*>(qp.driver_data);
}

/// Posts each receive of a chain by `post(wr)`; `*bad` is the first that was refused.
template <class Post>
Result<void> post_receives(const RecvWr& first, const RecvWr** bad, Post post) {
  for (const RecvWr* wr = &first; wr != nullptr; wr = wr->next) {
    if (auto posted = post(hca::RecvWr{.wr_id = wr->wr_id, .sges = wr->sges}); !posted) {
      *bad = wr;
      return posted;
    }
  }
  return {};
}

}  // namespace weft::core::engine
