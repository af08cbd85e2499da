// Extended CQs: completions read one at a time, field by field, with time stamps.

#include <arpa/inet.h>

#include <cerrno>

#include "compat/ibverbs/objects.h"
#include "os/clock.h"

namespace {

using namespace weft;
using namespace weft::compat;

constexpr std::uint64_t kStamps =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kKnownFields = IBV_WC_STANDARD_FLAGS | kStamps;

/// The device's clock: nanoseconds of CLOCK_MONOTONIC, so that time stamps of all hosts are
/// comparable.
[[nodiscard]] std::uint64_t device_clock() {
  return static_cast<std::uint64_t>(os::now().since_start().nanoseconds());
}

[[nodiscard]] CompletionQueueObject& cq_of(ibv_cq_ex* cq) {
  return object_of<CompletionQueueObject>(cq);
}

int next_poll(ibv_cq_ex* cq) noexcept {
  auto& object = cq_of(cq);
  if (!is_alive(*object.context)) {
    return refuse_in_child();
  }
  if (object.engine->is_empty()) {
    object.context->process->make_progress(*object.engine);
  }
  if (!object.engine->poll_one(object.current, object.current_stamp)) {
    return object.engine->is_dead() ? EIO : ENOENT;
  }
  cq->wr_id = object.current.wr_id;
  cq->status = static_cast<ibv_wc_status>(object.current.status);
  return 0;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) noexcept {
  return attributes->comp_mask == 0 ? next_poll(cq)
                                    : refuse(EINVAL, "unknown attributes of a poll (comp_mask)");
}

void end_poll(ibv_cq_ex*) noexcept {}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept {
  return static_cast<ibv_wc_opcode>(cq_of(cq).current.opcode);
}
std::uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.vendor_error; }
std::uint32_t read_byte_len(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.byte_length; }
__be32 read_imm_data(ibv_cq_ex* cq) noexcept {
  const hca::Wc& wc = cq_of(cq).current;
  return wc.flags.has(hca::Completion::WithInvalidate) ? wc.invalidated_rkey.value()
                                                       : htonl(wc.immediate);
}
std::uint32_t read_qp_num(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.qpn.value(); }
std::uint32_t read_src_qp(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.src_qpn.value(); }
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.flags.bits(); }
std::uint32_t read_slid(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.slid.value(); }
std::uint8_t read_sl(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.sl.value(); }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* cq) noexcept {
  return cq_of(cq).current.dlid_path_bits;
}

std::uint64_t read_completion_ts(ibv_cq_ex* cq) noexcept { return cq_of(cq).current_stamp; }

/// The two clocks differ by a constant, unless the time of day is set in between.
std::uint64_t read_completion_wallclock(ibv_cq_ex* cq) noexcept {
  const auto today = static_cast<std::uint64_t>(os::time_of_day().nanoseconds());
  return today - (device_clock() - cq_of(cq).current_stamp);
}

[[nodiscard]] Result<void> check_cq_attributes(const ibv_context* c,
                                               const ibv_cq_init_attr_ex& attributes) {
  constexpr std::uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr std::uint32_t kKnownFlags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  const auto has = [&](std::uint32_t bit) { return (attributes.comp_mask & bit) != 0; };
  if ((attributes.comp_mask & ~kKnown) != 0 || (attributes.wc_flags & ~kKnownFields) != 0) {
    return fail(ErrorCode::NotSupported,
                "an extended CQ here has the standard fields and timestamps, no VLANs or tags");
  }
  if (has(IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attributes.flags & ~kKnownFlags) != 0) {
    return fail(ErrorCode::InvalidArgument, "CQ flags {:#x}: only {:#x} are known",
                attributes.flags, kKnownFlags);
  }
  if (has(IBV_CQ_INIT_ATTR_MASK_PD) &&
      (attributes.parent_domain == nullptr || attributes.parent_domain->context != c ||
       !is_parent_domain(attributes.parent_domain))) {
    return fail(ErrorCode::InvalidArgument,
                "the domain of a CQ is a parent domain of the same context");
  }
  return {};
}

ibv_cq_ex* create_cq_ex(ibv_context* c, ibv_cq_init_attr_ex* attributes) noexcept {
  if (auto checked = check_cq_attributes(c, *attributes); !checked) {
    refuse(checked.error());
    return nullptr;
  }
  const auto has = [&](std::uint32_t bit) { return (attributes->comp_mask & bit) != 0; };
  const auto wants = [&](std::uint64_t flag) { return (attributes->wc_flags & flag) != 0; };
  ibv_pd* const domain = has(IBV_CQ_INIT_ATTR_MASK_PD) ? attributes->parent_domain : nullptr;
  const hca::CompletionQueueOptions options{
      .ignore_overrun = has(IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
                        (attributes->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0,
      .clock = wants(kStamps) ? device_clock : nullptr};
  CompletionQueueObject* const object =
      make_cq(context_of(c), static_cast<int>(attributes->cqe), attributes->cq_context,
              attributes->channel, static_cast<int>(attributes->comp_vector), domain, options);
  if (object == nullptr) {
    return nullptr;
  }
  ibv_cq_ex& cq = object->cq;
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_wc_flags = read_wc_flags;
  cq.read_byte_len = wants(IBV_WC_EX_WITH_BYTE_LEN) ? read_byte_len : nullptr;
  cq.read_imm_data = wants(IBV_WC_EX_WITH_IMM) ? read_imm_data : nullptr;
  cq.read_qp_num = wants(IBV_WC_EX_WITH_QP_NUM) ? read_qp_num : nullptr;
  cq.read_src_qp = wants(IBV_WC_EX_WITH_SRC_QP) ? read_src_qp : nullptr;
  cq.read_slid = wants(IBV_WC_EX_WITH_SLID) ? read_slid : nullptr;
  cq.read_sl = wants(IBV_WC_EX_WITH_SL) ? read_sl : nullptr;
  cq.read_dlid_path_bits = wants(IBV_WC_EX_WITH_DLID_PATH_BITS) ? read_dlid_path_bits : nullptr;
  cq.read_completion_ts = wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) ? read_completion_ts : nullptr;
  cq.read_completion_wallclock_ns =
      wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) ? read_completion_wallclock : nullptr;
  return &cq;
}

/// Event moderation by number of completions, or microseconds after the first (ibv_modify_cq(3)).
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attributes) noexcept {
  auto& object = object_of<CompletionQueueObject>(cq);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  if (attributes->attr_mask != IBV_CQ_ATTR_MODERATE) {
    return refuse(EINVAL, "of a CQ, only the moderation of its events can be modified");
  }
  object.engine->moderate({.count = attributes->moderate.cq_count,
                           .period = Duration::microseconds(attributes->moderate.cq_period)});
  return 0;
}

/// The present time on the clock of completion time stamps.
int query_rt_values(ibv_context*, ibv_values_ex* values) noexcept {
  const bool wanted = (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0;
  values->comp_mask &= static_cast<std::uint32_t>(IBV_VALUES_MASK_RAW_CLOCK);
  if (wanted) {
    values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<long>(device_clock())};
  }
  return 0;
}

}  // namespace

void weft::compat::set_extended_completion_operations(verbs_context& verbs) {
  verbs.create_cq_ex = create_cq_ex;
  verbs.query_rt_values = query_rt_values;
  verbs.modify_cq = modify_cq;
}
