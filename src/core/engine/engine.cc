#include "core/engine/engine.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/engine/engine_operations.h"

namespace weft::core::engine {
namespace {

/// Policy: what the engine has no limit of its own for.
constexpr std::uint32_t kMostEntries = 4'096;  // of a list that is registered
constexpr std::uint64_t kPageSizes = ~std::uint64_t{0xFFF} & 0xFFFF'FFFF;

Result<DeviceAttributes> query_device(Device& device) {
  const hca::DeviceLimits& limits = engine_of(device).hca().configuration().limits;
  const PortManagement* const management = EngineOperations::management(engine_of(device));
  using enum DeviceCapability;
  DeviceAttributes attributes;
  attributes.node_guid = device.init().node_guid;
  attributes.system_image_guid =
      management != nullptr ? management->system_image_guid() : device.init().node_guid;
  attributes.max_mr_size = limits.max_mr_size;
  attributes.page_size_mask = kPageSizes;
  attributes.capabilities = DeviceCapabilities{BadPKeyCounter} | BadQKeyCounter |
                            AutoPathMigration | ChangePhysicalPort | CurrentQpStateModify |
                            PortActiveEvent | RcRnrNakGeneration | MemoryWindow |
                            MemoryWindowType2B | Xrc | OnDemandPaging | MemoryManagementExtensions |
                            SgGapsRegistration | Integrity;
  if (management != nullptr) {
    attributes.capabilities |= DeviceCapabilities{ShutdownPort} | SystemImageGuid;
  }
  attributes.max_qp = limits.max_qp;
  attributes.max_qp_wr = limits.max_qp_wr;
  attributes.max_send_sge = limits.max_sge;
  attributes.max_recv_sge = limits.max_sge;
  attributes.max_sge_read = limits.max_sge;
  attributes.max_cq = limits.max_cq;
  attributes.max_cqe = limits.max_cqe;
  attributes.max_mr = limits.max_mr;
  attributes.max_mw = limits.max_mw;
  attributes.max_pd = limits.max_pd;
  attributes.max_ah = limits.max_ah;
  attributes.max_qp_rd_atomic = limits.max_qp_rd_atomic;
  attributes.max_qp_init_rd_atomic = limits.max_qp_rd_atomic;
  attributes.max_srq = limits.max_srq;
  attributes.max_srq_wr = limits.max_srq_wr;
  attributes.max_srq_sge = limits.max_srq_sge;
  attributes.max_wq = limits.max_wq;
  attributes.max_indirection_table_log2 = hca::IndirectionTable::kMaxLog2;
  attributes.max_fast_registration_entries = kMostEntries;
  attributes.max_integrity_entries = kMostEntries;
  attributes.max_multicast_groups = limits.max_mcast_groups;
  attributes.max_multicast_qp_attach = limits.max_mcast_qps_per_group;
  return attributes;
}

/// A port without an SMA.
[[nodiscard]] ManagedPort unmanaged(const hca::Hca& hca, verbs::PortState state) {
  constexpr std::uint8_t kLinkUp = 5;
  constexpr std::uint8_t kPolling = 2;
  constexpr std::uint64_t kMost = 0xFFFF;  // the counters of PortInfo saturate
  const hca::Hca::Counters counters = hca.counters();
  return {.physical_state = state == verbs::PortState::Down ? kPolling : kLinkUp,
          .pkey_violations = static_cast<std::uint16_t>(std::min(counters.pkey_violations, kMost)),
          .qkey_violations = static_cast<std::uint16_t>(std::min(counters.qkey_violations, kMost))};
}

Result<PortDescription> query_port(Device& device, PortNumber number) {
  Engine& engine = engine_of(device);
  const verbs::PortAttributes port = engine.hca().port(number);
  const PortManagement* const management = EngineOperations::management(engine);
  const ManagedPort managed =
      management != nullptr ? management->port(number) : unmanaged(engine.hca(), port.state);
  return PortDescription{
      .state = port.state,
      .physical_state = managed.physical_state,
      .max_mtu = port.max_mtu,
      .active_mtu = port.active_mtu,
      .gid_table_length = device.immutable(number).gid_table_length,
      .capability_mask = managed.capability_mask,
      .capability_mask_2 = managed.capability_mask_2,
      .max_message_size = engine.hca().configuration().limits.max_message_bytes,
      .bad_pkeys = managed.pkey_violations,
      .bad_qkeys = managed.qkey_violations,
      .pkey_table_length = device.immutable(number).pkey_table_length,
      .lid = port.lid,
      .sm_lid = port.sm_lid,
      .lmc = port.lmc,
      .max_vl = 1,
      .sm_sl = port.sm_sl,
      .subnet_timeout = managed.subnet_timeout,
      .init_type_reply = managed.init_type_reply,
      .active_width = port.active_width,
      .active_speed = port.active_speed,
  };
}

Result<PortImmutable> get_port_immutable(Device& /*device*/, PortNumber /*port*/) {
  constexpr std::uint32_t kGids = 128;  // policy, as kPKeys
  constexpr std::uint32_t kPKeys = 128;
  return PortImmutable{
      .pkey_table_length = kPKeys, .gid_table_length = kGids, .capabilities = kInfinibandPort};
}

Result<Gid> query_gid(Device& device, PortNumber number, std::uint32_t index) {
  const verbs::PortAttributes port = engine_of(device).hca().port(number);
  return index < port.gids.size() ? port.gids[index] : Gid{};
}

Result<PKey> query_pkey(Device& device, PortNumber number, std::uint32_t index) {
  return engine_of(device).hca().port(number).pkey(static_cast<std::uint16_t>(index));
}

}  // namespace

Engine::Engine(Registry& registry, EngineCarrier& carrier, EngineInit init)
    : registry_(registry),
      carrier_(carrier),
      init_(std::move(init)),
      lock_(registry.environment().lock_policy()),
      teller_(registry.environment(), WorkContext::SoftIrq, 0, [this] { tell(); }) {}

Engine::~Engine() {
  teller_.cancel_and_wait();
  if (device_ != nullptr) {
    registry_.deallocate_device(*device_);
  }
}

void Engine::bind(hca::Hca& hca) {
  hca_ = &hca;
  qps_ = std::vector<std::atomic<Qp*>>(hca.configuration().limits.max_qp);
}

Result<void> Engine::register_device() {
  device_ = registry_.allocate_device({.operations = init_.operations(),
                                       .driver_data = this,
                                       .node_guid = init_.node_guid,
                                       .node_description = init_.node_description,
                                       .port_count = hca_->configuration().port_count,
                                       .completion_vectors = init_.completion_vectors,
                                       .net = init_.net,
                                       .forces_registration = init_.forces_registration});
  return registry_.register_device(*device_, init_.name);
}

void Engine::unregister_device() {
  registry_.unregister_device(*device_);
  teller_.cancel_and_wait();
}

std::atomic<Qp*>* Engine::qp_slot(Qpn qpn) {
  const std::uint32_t index = qpn.value() - hca_->configuration().first_qpn.value();
  return index < qps_.size() ? &qps_[index] : nullptr;
}

void Engine::report_port_event(PortNumber port, verbs::AsyncEventType type) {
  dispatch_event({.device = device_, .type = type, .port = port});
}

namespace {

std::unexpected<Error> unmanaged_refusal() {
  return fail(ErrorCode::NotSupported, "nobody manages the ports of this engine: it has no SMA");
}

}  // namespace

Result<void> EngineOperations::modify_port(Device& device, PortNumber port,
                                           const PortModification& modification) {
  PortManagement* const management = engine_of(device).management_;
  if (management == nullptr) {
    return unmanaged_refusal();
  }
  if (modification.mask.has(PortChange::OpaMask)) {
    return fail(ErrorCode::NotSupported, "an InfiniBand port has no capability mask of Omni-Path");
  }
  return management->modify_port(port, modification);
}

Result<void> EngineOperations::modify_device(Device& device,
                                             const DeviceModification& modification) {
  PortManagement* const management = engine_of(device).management_;
  return management != nullptr ? management->modify_device(modification) : unmanaged_refusal();
}

void Engine::bad_key(const hca::BadKey& bad) {
  if (management_ == nullptr) {
    return;
  }
  {
    const std::lock_guard lock{lock_};
    const auto known = std::ranges::find_if(bad_keys_, [&](const BadKeys& one) {
      return one.last.port == bad.port && one.last.kind == bad.kind;
    });
    if (known != bad_keys_.end()) {
      *known = {.last = bad, .count = known->count + 1};
    } else {
      bad_keys_.push_back({.last = bad, .count = 1});
    }
  }
  teller_.queue();
}

void Engine::completion_event(hca::CompletionQueue& cq) {
  {
    const std::lock_guard lock{lock_};
    untold_.emplace_back(static_cast<Cq*>(cq.user));
  }
  teller_.queue();
}

void Engine::async_event(const hca::AsyncEvent& event) {
  Event told{.device = device_, .type = event.type, .port = event.port};
  told.qp = event.qp != nullptr ? static_cast<Qp*>(event.qp->user) : nullptr;
  told.cq = event.cq != nullptr ? static_cast<Cq*>(event.cq->user) : nullptr;
  told.srq = event.srq != nullptr ? static_cast<Srq*>(event.srq->user) : nullptr;
  {
    const std::lock_guard lock{lock_};
    untold_.emplace_back(told);
  }
  teller_.queue();
}

void Engine::explain(std::string_view reason) {
  registry_.environment().log(LogLevel::Debug, reason);
}

void Engine::tell_bad_keys() {
  std::vector<BadKeys> untold;
  {
    const std::lock_guard lock{lock_};
    untold.swap(bad_keys_);
  }
  for (const BadKeys& bad : untold) {
    management_->report_bad_keys(bad.last, bad.count);
  }
}

void Engine::tell() {
  tell_bad_keys();
  for (;;) {
    Untold next;
    {
      const std::lock_guard lock{lock_};
      if (untold_.empty()) {
        return;
      }
      next = untold_.front();
      untold_.pop_front();
      telling_ = next;
    }
    if (Cq* const* const cq = std::get_if<Cq*>(&next)) {
      (*cq)->notify();
    } else {
      dispatch_event(std::get<Event>(next));
    }
    bool is_awaited = false;
    {
      const std::lock_guard lock{lock_};
      telling_.reset();
      is_awaited = forgetting_ != 0;
    }
    if (is_awaited) {
      registry_.environment().notify();
    }
  }
}

bool Engine::is_of(const Untold& untold, const void* object) {
  if (Cq* const* const cq = std::get_if<Cq*>(&untold)) {
    return *cq == object;
  }
  const Event& event = std::get<Event>(untold);
  return event.qp == object || event.cq == object || event.srq == object;
}

void Engine::forget(const void* object) {
  {
    const std::lock_guard lock{lock_};
    std::erase_if(untold_, [&](const Untold& one) { return is_of(one, object); });
    ++forgetting_;
  }
  // Not until the teller rests, which it may never do while others are busy.
  registry_.environment().wait_until(
      [&] {
        const std::lock_guard lock{lock_};
        return !telling_ || !is_of(*telling_, object);
      },
      Instant::never());
  const std::lock_guard lock{lock_};
  --forgetting_;
}

Engine& engine_of(const Device& device) { return *static_cast<Engine*>(device.driver_data()); }

void EngineOperations::add_device(DeviceOperations& operations) {
  operations.driver_id = kEngineDriver;
  operations.query_device = query_device;
  operations.query_port = query_port;
  operations.get_port_immutable = get_port_immutable;
  operations.query_gid = query_gid;
  operations.query_pkey = query_pkey;
  operations.modify_device = modify_device;
  operations.modify_port = modify_port;
}

DeviceOperations engine_operations() {
  DeviceOperations operations;
  EngineOperations::add_device(operations);
  EngineOperations::add_objects(operations);
  EngineOperations::add_memory(operations);
  EngineOperations::add_fmrs(operations);
  EngineOperations::add_integrity(operations);
  EngineOperations::add_qps(operations);
  return operations;
}

}  // namespace weft::core::engine
