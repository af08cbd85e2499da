#include "core/wq.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "core/device.h"

namespace weft::core {
namespace {

struct Transition {
  WqState from;
  WqState to;
};
constexpr auto kTransitions = std::to_array<Transition>({
    {WqState::Reset, WqState::Ready},
    {WqState::Ready, WqState::Error},
    {WqState::Ready, WqState::Reset},
    {WqState::Error, WqState::Reset},
});

constexpr std::string_view name_of(WqState state) {
  constexpr auto kNames = std::to_array<std::string_view>({"RESET", "RDY", "ERR"});
  const auto number = static_cast<std::size_t>(state);
  return number < kNames.size() ? kNames[number] : "a state that there is not";
}

}  // namespace

void Wq::dispatch(const Event& event) const {
  if (init_.event_handler != nullptr) {
    init_.event_handler(event, init_.context);
  }
}

Result<Wq*> create_wq(Pd& pd, WqInit& init) {
  Device& device = pd.device();
  if (device.operations().create_wq == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no work queues", device.name());
  }
  if (init.type != WqType::Rq || init.cq == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a work queue is for receives, and has a CQ");
  }
  WqInit actual = init;
  auto wq = std::make_unique<Wq>(pd, init);
  if (const auto made = device.operations().create_wq(*wq, actual); !made) {
    return std::unexpected(made.error());
  }
  init = actual;
  pd.hold();
  init.cq->hold();
  device.add_resource(*wq);
  return wq.release();
}

Result<void> destroy_wq(Wq& wq) {
  Device& device = wq.device();
  if (const std::uint32_t uses = wq.uses(); uses != 0) {
    return fail(ErrorCode::Busy, "{} indirection tables have the work queue", uses);
  }
  if (auto gone = device.operations().destroy_wq(wq); !gone) {
    return gone;
  }
  device.remove_resource(wq);
  wq.cq().put();
  wq.pd().put();
  std::unique_ptr<Wq>{&wq}.reset();
  return {};
}

Result<void> modify_wq(Wq& wq, WqModify& modify) {
  Device& device = wq.device();
  if (device.operations().modify_wq == nullptr) {
    return fail(ErrorCode::NotSupported, "{} changes no work queues", device.name());
  }
  if (modify.current_state && *modify.current_state != wq.state_) {
    return fail(ErrorCode::InvalidArgument, "the work queue is in {}, not in {}",
                name_of(wq.state_), name_of(*modify.current_state));
  }
  const WqState to = modify.state.value_or(wq.state_);
  const bool exists = std::ranges::any_of(kTransitions, [&](const Transition& transition) {
    return transition.from == wq.state_ && transition.to == to;
  });
  if (modify.state && !exists) {
    return fail(ErrorCode::InvalidArgument, "a work queue does not go from {} to {}",
                name_of(wq.state_), name_of(to));
  }
  WqModify checked = modify;
  checked.current_state = wq.state_;
  if (auto changed = device.operations().modify_wq(wq, checked); !changed) {
    return changed;
  }
  wq.state_ = to;
  modify.current_state = to;
  modify.state = to;
  return {};
}

Result<void> post_wq_recv(Wq& wq, const RecvWr& first, const RecvWr** bad) {
  const RecvWr* unused = nullptr;
  if (wq.device().operations().post_wq_recv == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no work queues", wq.device().name());
  }
  return wq.device().operations().post_wq_recv(wq, first, bad != nullptr ? bad : &unused);
}

Result<IndirectionTable*> create_indirection_table(Device& device, std::span<Wq* const> queues) {
  if (device.operations().create_indirection_table == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no indirection tables", device.name());
  }
  const std::uint32_t most = 1U << std::min(31U, device.attributes().max_indirection_table_log2);
  if (!std::has_single_bit(queues.size()) || queues.size() > most) {
    return fail(ErrorCode::InvalidArgument,
                "a table of {} work queues; the device takes a power of two up to {}",
                queues.size(), most);
  }
  auto table =
      std::make_unique<IndirectionTable>(device, std::vector<Wq*>{queues.begin(), queues.end()});
  if (const auto made = device.operations().create_indirection_table(*table); !made) {
    return std::unexpected(made.error());
  }
  for (Wq* const wq : queues) {
    wq->hold();
  }
  device.add_resource(*table);
  return table.release();
}

Result<void> destroy_indirection_table(IndirectionTable& table) {
  Device& device = table.device();
  if (const std::uint32_t uses = table.uses(); uses != 0) {
    return fail(ErrorCode::Busy, "{} QPs receive through the indirection table", uses);
  }
  if (auto gone = device.operations().destroy_indirection_table(table); !gone) {
    return gone;
  }
  device.remove_resource(table);
  for (Wq* const wq : table.queues()) {
    wq->put();
  }
  std::unique_ptr<IndirectionTable>{&table}.reset();
  return {};
}

}  // namespace weft::core
