#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "hca/hca.h"
#include "hca/hca_state.h"
#include "hca/rc/transport.h"
#include "hca/uc_transport.h"
#include "hca/ud_transport.h"

namespace weft::hca {
namespace {

[[nodiscard]] std::uint32_t least_placed_bytes(const HcaConfiguration& configuration) {
  switch (configuration.placement) {
    case PlacementPolicy::Never:
      return std::numeric_limits<std::uint32_t>::max();  // no message has so many
    case PlacementPolicy::WhereQuicker:
      return 1;
    case PlacementPolicy::Always:
      break;
  }
  return configuration.least_placed_bytes;
}

Result<void> refuse_if_full(std::size_t count, std::uint32_t limit, std::string_view what) {
  if (count >= limit) {
    return fail(ErrorCode::OutOfMemory, "the device's {} {} are all in use", limit, what);
  }
  return {};
}

Result<void> refuse_if_used(const std::atomic<std::uint32_t>& uses, std::string_view what,
                            std::string_view by) {
  if (const std::uint32_t count = uses.load(std::memory_order_acquire); count != 0) {
    return fail(ErrorCode::Busy, "the {} is still used by {} {}; destroy those first", what, count,
                by);
  }
  return {};
}

[[nodiscard]] std::unique_ptr<Transport> make_transport(QpCore& core,
                                                        const HcaConfiguration& configuration) {
  switch (core.type) {
    case QpType::Rc:
    case QpType::XrcInitiator:
    case QpType::XrcTarget:
      return make_rc_transport(core, configuration.loss_model, configuration.limits);
    case QpType::Uc:
      return make_uc_transport(core);
    case QpType::Ud:
      return make_ud_transport(core);
    case QpType::Smi:
    case QpType::Gsi:
    case QpType::RawPacket:
      break;  // refused by check_qp_init
  }
  return nullptr;
}

Result<void> check_scaling(const QpInit& init) {
  if (init.type != QpType::Ud) {
    return fail(ErrorCode::NotSupported,
                "a {} QP has a receive queue of its own; only UD QPs spread what they receive",
                verbs::name_of(init.type));
  }
  if (init.recv_cq != nullptr || init.srq != nullptr || init.capabilities.max_recv_wr != 0) {
    return fail(ErrorCode::InvalidArgument,
                "a QP that receives through an indirection table has no receive CQ, SRQ or receive "
                "queue");
  }
  if (!verbs::go_together(init.scaling.hash.fields)) {
    return fail(ErrorCode::InvalidArgument,
                "hash fields {:#x}: the device has those of IPv4 or IPv6, and of TCP or UDP",
                init.scaling.hash.fields.bits());
  }
  return {};
}

}  // namespace

Result<ProtectionDomain*> Hca::allocate_pd() {
  const std::lock_guard guard{state_->objects};
  if (auto room = refuse_if_full(state_->pds.size(), state_->configuration.limits.max_pd,
                                 "protection domains");
      !room) {
    return std::unexpected(room.error());
  }
  return state_->pds.add(std::make_unique<ProtectionDomain>());
}

Result<void> Hca::deallocate_pd(ProtectionDomain& pd) {
  if (auto free = refuse_if_used(pd.uses, "protection domain",
                                 "QPs, regions, windows, SRQs or address handles");
      !free) {
    return free;  // R-PD-2
  }
  const std::lock_guard guard{state_->objects};
  state_->pds.free(pd);
  return {};
}

Result<CompletionQueue*> Hca::create_cq(std::uint32_t capacity,
                                        const CompletionQueueOptions& options) {
  const DeviceLimits& limits = state_->configuration.limits;
  if (capacity == 0 || capacity > limits.max_cqe) {
    return fail(ErrorCode::InvalidArgument, "a CQ of {} entries; the device allows 1..{}", capacity,
                limits.max_cqe);
  }
  const std::lock_guard guard{state_->objects};
  if (auto room = refuse_if_full(state_->cqs.size(), limits.max_cq, "completion queues"); !room) {
    return std::unexpected(room.error());
  }
  return state_->cqs.add(std::make_unique<CompletionQueue>(
      capacity, state_->configuration.lock_policy, state_->events, options));
}

Result<void> Hca::check_unused(const CompletionQueue& cq) {
  return refuse_if_used(cq.uses, "completion queue", "QPs");
}

Result<void> Hca::destroy_cq(CompletionQueue& cq) {
  if (auto unused = check_unused(cq); !unused) {
    return unused;
  }
  const std::lock_guard guard{state_->objects};
  state_->cqs.free(cq);
  return {};
}

Result<SharedReceiveQueue*> Hca::create_srq(ProtectionDomain& pd, std::uint32_t depth,
                                            std::uint32_t max_sge, std::uint32_t limit) {
  return make_srq(pd, depth, max_sge, limit, {});
}

Result<SharedReceiveQueue*> Hca::make_srq(ProtectionDomain& pd, std::uint32_t depth,
                                          std::uint32_t max_sge, std::uint32_t limit,
                                          XrcSrqInit xrc) {
  const DeviceLimits& limits = state_->configuration.limits;
  if (depth == 0 || depth > limits.max_srq_wr || max_sge > limits.max_srq_sge) {
    return fail(ErrorCode::InvalidArgument,
                "an SRQ of {} WQEs with {} SGEs; the device allows 1..{} with up to {}", depth,
                max_sge, limits.max_srq_wr, limits.max_srq_sge);
  }
  const std::lock_guard guard{state_->objects};
  if (auto room = refuse_if_full(state_->srqs.size(), limits.max_srq, "shared receive queues");
      !room) {
    return std::unexpected(room.error());
  }
  if (xrc.domain != nullptr) {
    const auto number = state_->xrc_srqs.reserve();
    if (!number) {
      return std::unexpected(number.error());
    }
    xrc.number = *number;
  }
  pd.uses.fetch_add(1, std::memory_order_relaxed);
  SharedReceiveQueue* const srq = state_->srqs.add(std::make_unique<SharedReceiveQueue>(
      pd, depth, max_sge, limit, state_->configuration.lock_policy, state_->events, xrc));
  if (xrc.domain != nullptr) {
    state_->xrc_srqs.set(xrc.number, srq);
  }
  return srq;
}

Result<void> Hca::modify_srq(SharedReceiveQueue& srq, std::optional<std::uint32_t> depth,
                             std::optional<std::uint32_t> limit) {
  const std::uint32_t most = state_->configuration.limits.max_srq_wr;
  if (depth && (*depth == 0 || *depth > most)) {
    return fail(ErrorCode::InvalidArgument, "an SRQ of {} WQEs; the device allows 1..{}", *depth,
                most);
  }
  return srq.modify(depth, limit);
}

Result<void> Hca::destroy_srq(SharedReceiveQueue& srq) {
  if (srq.xrc().domain != nullptr) {
    if (auto withdrawn = withdraw_xrc_srq(srq); !withdrawn) {
      return withdrawn;
    }
  } else if (auto free = refuse_if_used(srq.uses, "shared receive queue", "QPs"); !free) {
    return free;
  }
  const std::lock_guard guard{state_->objects};
  srq.pd().uses.fetch_sub(1, std::memory_order_release);
  state_->srqs.free(srq);
  return {};
}

Result<WorkQueue*> Hca::create_wq(const WorkQueue::Init& init) {
  const DeviceLimits& limits = state_->configuration.limits;
  if (init.depth == 0 || init.depth > limits.max_qp_wr || init.max_sge > limits.max_sge) {
    return fail(ErrorCode::InvalidArgument,
                "a work queue of {} WRs with {} SGEs; the device allows 1..{} with up to {}",
                init.depth, init.max_sge, limits.max_qp_wr, limits.max_sge);
  }
  const std::lock_guard guard{state_->objects};
  const auto free = std::ranges::find_if(state_->wqs, [](const auto& wq) { return !wq; });
  if (free == state_->wqs.end()) {
    return fail(ErrorCode::OutOfMemory, "the device's {} work queues are all in use",
                limits.max_wq);
  }
  const auto index = static_cast<std::uint32_t>(free - state_->wqs.begin());
  *free = std::make_unique<WorkQueue>(init, Qpn{kFirstWorkQueue + index},
                                      state_->configuration.lock_policy);
  init.pd->uses.fetch_add(1, std::memory_order_relaxed);
  init.cq->uses.fetch_add(1, std::memory_order_relaxed);
  return free->get();
}

Result<void> Hca::destroy_wq(WorkQueue& wq) {
  if (auto free = refuse_if_used(wq.uses, "work queue", "entries of indirection tables"); !free) {
    return free;  // R-WQ-2
  }
  wq.cq().remove(wq.number());
  wq.cq().uses.fetch_sub(1, std::memory_order_release);
  wq.pd().uses.fetch_sub(1, std::memory_order_release);
  const std::lock_guard guard{state_->objects};
  state_->wqs[wq.number().value() - kFirstWorkQueue].reset();
  return {};
}

Result<IndirectionTable*> Hca::create_indirection_table(std::span<WorkQueue* const> queues) {
  if (!std::has_single_bit(queues.size()) || queues.size() > IndirectionTable::kMaxEntries) {
    return fail(ErrorCode::InvalidArgument,
                "an indirection table of {} entries; the device takes a power of two up to {}",
                queues.size(), IndirectionTable::kMaxEntries);
  }
  const std::lock_guard guard{state_->objects};
  if (auto room =
          refuse_if_full(state_->indirection_tables.size(),
                         state_->configuration.limits.max_indirection_tables, "indirection tables");
      !room) {
    return std::unexpected(room.error());
  }
  for (WorkQueue* const wq : queues) {
    wq->uses.fetch_add(1, std::memory_order_relaxed);
  }
  return state_->indirection_tables.add(std::make_unique<IndirectionTable>(queues));
}

Result<void> Hca::destroy_indirection_table(IndirectionTable& table) {
  if (auto free = refuse_if_used(table.uses, "indirection table", "QPs"); !free) {
    return free;
  }
  const std::lock_guard guard{state_->objects};
  for (WorkQueue* const wq : table.queues()) {
    wq->uses.fetch_sub(1, std::memory_order_release);
  }
  state_->indirection_tables.free(table);
  return {};
}

Result<AddressHandle*> Hca::create_ah(ProtectionDomain& pd, const AddressVector& attributes) {
  auto route = make_route(attributes);  // T-AH-2: port, DLID, GID index
  if (!route) {
    return std::unexpected(route.error());
  }
  const std::lock_guard guard{state_->objects};
  if (auto room = refuse_if_full(state_->ahs.size(), state_->configuration.limits.max_ah,
                                 "address handles");
      !room) {
    return std::unexpected(room.error());
  }
  pd.uses.fetch_add(1, std::memory_order_relaxed);
  return state_->ahs.add(std::make_unique<AddressHandle>(pd, attributes, *route));
}

Result<void> Hca::destroy_ah(AddressHandle& ah) {
  const std::lock_guard guard{state_->objects};
  ah.pd().uses.fetch_sub(1, std::memory_order_release);
  state_->ahs.free(ah);
  return {};
}

Result<void> Hca::check_qp_init(const QpInit& init) const {
  const DeviceLimits& limits = state_->configuration.limits;
  const QpCapabilities& asked = init.capabilities;
  if (init.type == QpType::Smi || init.type == QpType::Gsi || init.type == QpType::RawPacket) {
    return fail(ErrorCode::NotSupported, "the engine has no {} QPs", verbs::name_of(init.type));
  }
  if (!verbs::qp_type_of(std::to_underlying(init.type))) {
    return fail(ErrorCode::InvalidArgument, "there is no QP type {}",
                std::to_underlying(init.type));
  }
  if (init.external_number && init.type != QpType::Ud) {
    return fail(ErrorCode::NotSupported,
                "a {} QP goes by its own number; only a UD QP may go by another",
                verbs::name_of(init.type));
  }
  if (init.type == QpType::XrcTarget) {
    return init.xrcd != nullptr
               ? Result<void>{}
               : fail(ErrorCode::InvalidArgument, "an XRC target QP needs an XRC domain");
  }
  const bool is_scaled = init.scaling.table != nullptr;
  if (is_scaled) {
    if (auto checked = check_scaling(init); !checked) {
      return checked;
    }
  }
  const bool receives = init.type != QpType::XrcInitiator && !is_scaled;
  if (init.pd == nullptr || init.send_cq == nullptr || (receives && init.recv_cq == nullptr)) {
    return fail(ErrorCode::InvalidArgument, "a QP needs a PD, a send CQ{}",
                receives ? " and a receive CQ" : "");
  }
  if (receives && init.srq != nullptr && init.srq->xrc().domain != nullptr) {
    return fail(ErrorCode::InvalidArgument,
                "an XRC SRQ is for the target QPs of its domain, and for no other QP");
  }
  if (asked.max_send_wr > limits.max_qp_wr || asked.max_recv_wr > limits.max_qp_wr) {
    return fail(ErrorCode::InvalidArgument, "{} send and {} receive WRs; the device allows {} each",
                asked.max_send_wr, asked.max_recv_wr, limits.max_qp_wr);
  }
  if (asked.max_send_sge > limits.max_sge || asked.max_recv_sge > limits.max_sge) {
    return fail(ErrorCode::InvalidArgument,
                "{} send and {} receive SGEs; the device allows {} each", asked.max_send_sge,
                asked.max_recv_sge, limits.max_sge);
  }
  if (asked.max_inline_data > limits.max_inline_data) {
    return fail(ErrorCode::InvalidArgument, "{} bytes of inline data; the device allows {}",
                asked.max_inline_data, limits.max_inline_data);
  }
  return {};
}

/// Assigns numbers round-robin, so that late packets for a destroyed QP do not reach a new one.
Result<Qpn> Hca::reserve_qpn() {
  State& state = *state_;
  const auto size = static_cast<std::uint32_t>(state.qps.size());
  if (state.qp_count >= size) {
    return fail(ErrorCode::OutOfMemory, "the device's {} QPs are all in use", size);
  }
  while (state.qps[state.next_qp].load(std::memory_order_relaxed) != nullptr) {
    state.next_qp = (state.next_qp + 1) % size;
  }
  const Qpn qpn{state.configuration.first_qpn.value() + state.next_qp};
  state.used_qps.store(std::max(state.used_qps.load(std::memory_order_relaxed), state.next_qp + 1),
                       std::memory_order_release);
  state.next_qp = (state.next_qp + 1) % size;
  ++state.qp_count;
  return qpn;
}

/// Size of a scatter/gather element in the WQEs of hardware: address, L_Key and length.
constexpr std::uint32_t kSgeBytes = 16;

/// Clears what the QP type does not have, and computes the granted capabilities (R-QP-1: at least
/// those requested).
Result<QpInit> Hca::actual_init(const QpInit& asked) const {
  if (auto checked = check_qp_init(asked); !checked) {
    return std::unexpected(checked.error());
  }
  QpInit init = asked;
  QpCapabilities& actual = init.capabilities;
  actual.max_send_wr = std::max(actual.max_send_wr, 1U);
  actual.max_send_sge = std::max(actual.max_send_sge, 1U);
  // At least the space that the SGEs take: programs rely on it without asking (rdma_xclient).
  actual.max_inline_data = std::max(
      actual.max_inline_data,
      std::min(state_->configuration.limits.max_inline_data, actual.max_send_sge * kSgeBytes));
  if (is_xrc(init.type)) {
    init.recv_cq = nullptr;
    init.srq = nullptr;
    actual.max_recv_wr = actual.max_recv_sge = 0;
  }
  if (init.type == QpType::XrcTarget) {
    init.pd = &init.xrcd->nothing;
    init.send_cq = nullptr;
    actual = {};
  } else {
    init.xrcd = nullptr;
  }
  if (init.scaling.table != nullptr) {
    actual.max_recv_sge = 0;
  }
  actual.max_recv_wr = init.srq != nullptr ? 0 : actual.max_recv_wr;
  return init;
}

Result<Hca::State::ExternalNumber*> Hca::State::reserve_external(const QpInit& init) {
  if (!init.external_number) {
    return nullptr;
  }
  const Qpn number = *init.external_number;
  const std::uint32_t index = number.value() - configuration.first_qpn.value();
  if (number == kMulticastQpn || index < qps.size()) {
    return fail(ErrorCode::InvalidArgument,
                "{:#x} is no external number: it is {}; 0 and 1 are those of QP0 and QP1",
                number.value(),
                number == kMulticastQpn ? "that of multicast packets" : "one of the QPs' own");
  }
  if (find_external(number) != nullptr) {
    return fail(ErrorCode::Busy, "another QP goes by the number {:#x}", number.value());
  }
  const auto free = std::ranges::find_if(external_numbers, [](const auto& each) {
    return each.qp.load(std::memory_order_relaxed) == nullptr;
  });
  if (free == external_numbers.end()) {
    return fail(ErrorCode::OutOfMemory, "{} QPs go by external numbers, as many as can",
                external_numbers.size());
  }
  return &*free;
}

Result<Qp*> Hca::create_qp(const QpInit& asked) {
  const auto init = actual_init(asked);
  if (!init) {
    return std::unexpected(init.error());
  }
  const std::lock_guard guard{state_->objects};
  const auto external = state_->reserve_external(*init);
  if (!external) {
    return std::unexpected(external.error());
  }
  const auto qpn = reserve_qpn();
  if (!qpn) {
    return std::unexpected(qpn.error());
  }
  auto core = std::make_unique<QpCore>(init->type, *qpn, *init->pd, init->send_cq, init->recv_cq,
                                       init->srq, init->signal_all, init->capabilities,
                                       state_->memory, state_->events);
  core->time_scale = state_->configuration.time_scale;
  core->has_fast_path = state_->configuration.has_fast_path;
  core->placement = state_->configuration.placement;
  core->least_placed_bytes = least_placed_bytes(state_->configuration);
  core->xrcd = init->xrcd;
  core->xrc_srqs = &state_->xrc_srqs;
  core->proxy_for = init->proxy_for;
  core->external_number = init->external_number.value_or(*qpn);
  core->scaling = init->scaling;
  auto transport = make_transport(*core, state_->configuration);
  core->count_uses(1);
  auto qp = std::make_unique<Qp>(*this, state_->configuration.lock_policy, std::move(core),
                                 std::move(transport));
  for (std::uint8_t port = 1; port <= state_->configuration.port_count; ++port) {
    qp->take_port(PortNumber{port}, state_->ports[port]);
  }
  Qp* const raw = qp.release();
  state_->qps[qpn->value() - state_->configuration.first_qpn.value()].store(
      raw, std::memory_order_release);
  if (*external != nullptr) {
    (*external)->number.store(init->external_number->value(), std::memory_order_relaxed);
    (*external)->qp.store(raw, std::memory_order_release);
  }
  return raw;
}

Result<void> Hca::destroy_qp(Qp& qp) {
  QpCore& core = *qp.core_;
  {
    const std::lock_guard guard{state_->objects};
    for (const State::Group& group : state_->groups) {
      if (std::ranges::find(group.members, &qp) != group.members.end()) {
        return fail(ErrorCode::Busy,
                    "QP {:#x} is still attached to a multicast group; detach it first",
                    qp.number().value());
      }
    }
    state_->qps[core.number.value() - state_->configuration.first_qpn.value()].store(
        nullptr, std::memory_order_seq_cst);
    for (State::ExternalNumber& each : state_->external_numbers) {
      if (each.qp.load(std::memory_order_relaxed) == &qp) {
        each.qp.store(nullptr, std::memory_order_release);
      }
    }
    --state_->qp_count;
  }
  SpinWait spin;
  while (state_->key_fences.load(std::memory_order_seq_cst) != 0) {
    spin.pause();  // another QP's thread may have found it before
  }
  core.withdraw_placement();
  core.transport->on_destruction();
  core.discard_receive();
  core.remove_completions();
  core.count_uses(-1);
  delete &qp;
  return {};
}

/// R-RVT-21: a group is an MGID with one MLID; attaching twice has no effect.
Result<void> Hca::attach_multicast(Qp& qp, const Gid& mgid, Lid mlid) {
  if (qp.type() != QpType::Ud) {
    return fail(ErrorCode::InvalidArgument, "only UD QPs can be attached to a multicast group");
  }
  if (!mgid.is_multicast() || !mlid.is_multicast()) {
    return fail(ErrorCode::InvalidArgument, "not a multicast GID and LID {}", mlid.value());
  }
  const std::lock_guard guard{state_->objects};
  auto group = std::ranges::find(state_->groups, mgid, &State::Group::mgid);
  if (group == state_->groups.end()) {
    if (state_->groups.size() >= state_->configuration.limits.max_mcast_groups) {
      return fail(ErrorCode::OutOfMemory, "the device's {} multicast groups are all in use",
                  state_->configuration.limits.max_mcast_groups);
    }
    state_->groups.push_back({.mgid = mgid, .mlid = mlid, .members = {}});
    group = std::prev(state_->groups.end());
  }
  if (group->mlid != mlid) {
    return fail(ErrorCode::InvalidArgument, "the group has MLID {}, not {}", group->mlid.value(),
                mlid.value());
  }
  if (std::ranges::find(group->members, &qp) != group->members.end()) {
    return {};
  }
  if (group->members.size() >= state_->configuration.limits.max_mcast_qps_per_group) {
    return fail(ErrorCode::OutOfMemory, "the group has {} QPs, as many as the device allows",
                group->members.size());
  }
  group->members.push_back(&qp);
  return {};
}

Result<void> Hca::detach_multicast(Qp& qp, const Gid& mgid, Lid mlid) {
  const std::lock_guard guard{state_->objects};
  for (auto group = state_->groups.begin(); group != state_->groups.end(); ++group) {
    if (group->mgid == mgid && group->mlid == mlid && std::erase(group->members, &qp) != 0) {
      if (group->members.empty()) {
        state_->groups.erase(group);
      }
      return {};
    }
  }
  return fail(ErrorCode::InvalidArgument, "QP {:#x} is not attached to that group",
              qp.number().value());
}

}  // namespace weft::hca
