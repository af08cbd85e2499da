// PDs, address handles, CQs and SRQs.

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "core/ah.h"
#include "core/device.h"
#include "os/heap.h"
#include "verbs_driver/translation.h"
#include "verbs_driver/verbs_device.h"
#include "verbs_driver/verbs_operations.h"

namespace weft::verbs_driver {
namespace {

using core::Cq;

constexpr std::size_t kMostRegistrations = 4'096;  // policy, of a PD

Result<void> allocate_pd(core::Pd& pd, core::UserData* /*user_data*/) {
  VerbsDevice& own = verbs_device_of(pd.device());
  auto made = std::make_unique<VerbsPd>();
  made->pd = own.library().alloc_pd(&own.context());
  if (made->pd == nullptr) {
    return std::unexpected(library_error(errno, "ibv_alloc_pd"));
  }
  Registrations::Registrar registrar{
      .add = [library = &own.library(), pd_there = made->pd](
                 std::uint64_t begin, std::uint64_t length) -> Result<Registrations::Entry> {
        void* const address = std::bit_cast<void*>(begin);
        ibv_mr* const region = library->reg_mr(pd_there, address, length, IBV_ACCESS_LOCAL_WRITE);
        if (region == nullptr) {
          return std::unexpected(library_error(errno, "ibv_reg_mr"));
        }
        return Registrations::Entry{.length = length, .lkey = LKey{region->lkey}, .region = region};
      },
      .remove =
          [library = &own.library()](const Registrations::Entry& entry) {
            library->dereg_mr(static_cast<ibv_mr*>(entry.region));
          },
      .around =
          [] {
            const auto heap = os::heap_range();
            return heap ? Registrations::Range{.begin = heap->begin, .end = heap->end}
                        : Registrations::Range{};
          }};
  made->registers_heap = own.registers_heap();
  made->registrations = std::make_unique<Registrations>(std::move(registrar), kMostRegistrations);
  pd.driver_data = made.release();
  return {};
}

Result<void> deallocate_pd(core::Pd& pd, core::UserData* /*user_data*/) {
  std::unique_ptr<VerbsPd> there{&verbs_pd(pd)};
  there->registrations.reset();
  if (there->windowed != nullptr &&
      verbs_device_of(pd.device()).library().dereg_mr(there->windowed) == 0) {
    there->windowed = nullptr;
  }
  auto gone =
      check_call(verbs_device_of(pd.device()).library().dealloc_pd(there->pd), "ibv_dealloc_pd");
  if (!gone) {
    // The PD stays whole but for what it had registered, which it registers again.
    static_cast<void>(there.release());
  }
  return gone;
}

Result<void> create_ah(core::Ah& ah, const core::AhAttributes& attributes, core::AhFlags /*flags*/,
                       core::UserData* /*user_data*/) {
  ibv_ah_attr asked = to_ibv(attributes.address);
  ibv_ah* const made =
      verbs_device_of(ah.device()).library().create_ah(verbs_pd(ah.pd()).pd, &asked);
  if (made == nullptr) {
    return std::unexpected(library_error(errno, "ibv_create_ah"));
  }
  ah.driver_data = made;
  return {};
}

Result<void> destroy_ah(core::Ah& ah, core::AhFlags /*flags*/) {
  return check_call(
      verbs_device_of(ah.device()).library().destroy_ah(static_cast<ibv_ah*>(ah.driver_data)),
      "ibv_destroy_ah");
}

Result<void> create_cq(Cq& cq, std::uint32_t entries, core::UserData* /*user_data*/) {
  VerbsDevice& own = verbs_device_of(cq.device());
  const int vectors = std::max(own.context().num_comp_vectors, 1);
  ibv_cq* const made =
      own.library().create_cq(&own.context(), static_cast<int>(entries), &cq, &own.channel(),
                              static_cast<int>(cq.vector()) % vectors);
  if (made == nullptr) {
    return std::unexpected(library_error(errno, "ibv_create_cq"));
  }
  auto there = std::make_unique<VerbsCq>();
  there->cq = made;
  cq.driver_data = there.release();
  cq.set_capacity(static_cast<std::uint32_t>(made->cqe));
  return {};
}

Result<void> destroy_cq(Cq& cq) {
  // Waits until the thread of events has acknowledged what it took of this CQ.
  auto gone = check_call(verbs_device_of(cq.device()).library().destroy_cq(verbs_cq(cq).cq),
                         "ibv_destroy_cq");
  if (gone) {
    std::unique_ptr<VerbsCq>{&verbs_cq(cq)}.reset();
  }
  return gone;
}

/// Completions of the device, with its lock held.
unsigned poll_device(Cq& cq, VerbsCq& there, std::span<core::Wc> into) {
  constexpr std::size_t kBatch = 16;  // policy
  VerbsDevice& own = verbs_device_of(cq.device());
  std::array<ibv_wc, kBatch> batch{};
  std::size_t taken = 0;
  core::Qp* known = nullptr;  // most completions are of the QP of the one before
  while (taken < into.size()) {
    const std::size_t room = std::min(kBatch, into.size() - taken);
    const int count = ibv_poll_cq(there.cq, static_cast<int>(room), batch.data());
    for (int i = 0; i < count; ++i) {
      core::Wc& wc = into[taken++];
      wc = completion_of(batch[static_cast<std::size_t>(i)]);
      if (known == nullptr || known->number() != wc.qpn) {
        known = own.find_qp(wc.qpn);
      }
      wc.qp = known;
    }
    if (count < static_cast<int>(room)) {
      break;  // a CQ in error tells of it by an event
    }
  }
  return static_cast<unsigned>(taken);
}

unsigned poll_cq(Cq& cq, std::span<core::Wc> into) {
  VerbsCq& there = verbs_cq(cq);
  const std::lock_guard lock{there.mutex};
  const std::size_t kept = std::min(there.found.size(), into.size());
  std::copy_n(there.found.begin(), kept, into.begin());
  there.found.erase(there.found.begin(), there.found.begin() + static_cast<std::ptrdiff_t>(kept));
  return static_cast<unsigned>(kept) + poll_device(cq, there, into.subspan(kept));
}

/// An armed CQ tells only of completions that come afterwards, and nobody says whether some were
/// there: one is looked for, and kept for the next poll.
Result<bool> request_notify(Cq& cq, core::NotifyFlags flags) {
  VerbsCq& there = verbs_cq(cq);
  const bool solicited_only =
      flags.has(core::NotifyFlag::Solicited) && !flags.has(core::NotifyFlag::NextCompletion);
  if (const auto armed =
          check_call(ibv_req_notify_cq(there.cq, solicited_only ? 1 : 0), "ibv_req_notify_cq");
      !armed) {
    return std::unexpected(armed.error());
  }
  if (!flags.has(core::NotifyFlag::ReportMissedEvents)) {
    return false;
  }
  const std::lock_guard lock{there.mutex};
  core::Wc found;
  if (there.found.empty() && poll_device(cq, there, {&found, 1}) == 1) {
    there.found.push_back(found);
  }
  return !there.found.empty();
}

Result<void> resize_cq(Cq& cq, std::uint32_t entries) {
  ibv_cq* const there = verbs_cq(cq).cq;
  auto resized =
      check_call(verbs_device_of(cq.device()).library().resize_cq(there, static_cast<int>(entries)),
                 "ibv_resize_cq");
  cq.set_capacity(static_cast<std::uint32_t>(there->cqe));
  return resized;
}

Result<void> create_srq(core::Srq& srq, core::SrqAttributes& actual, core::UserData* /*data*/) {
  if (srq.type() != core::SrqType::Basic) {
    return fail(ErrorCode::NotSupported, "{} has no XRC", srq.device().name());
  }
  ibv_srq_init_attr asked{
      .srq_context = &srq,
      .attr = {.max_wr = actual.max_wr, .max_sge = actual.max_sge, .srq_limit = actual.limit}
  };
  ibv_srq* const made =
      verbs_device_of(srq.device()).library().create_srq(verbs_pd(srq.pd()).pd, &asked);
  if (made == nullptr) {
    return std::unexpected(library_error(errno, "ibv_create_srq"));
  }
  srq.driver_data = made;
  actual.max_wr = asked.attr.max_wr;
  actual.max_sge = asked.attr.max_sge;
  return {};
}

Result<void> post_srq_recv(core::Srq& srq, const core::RecvWr& first, const core::RecvWr** bad) {
  return post_receives(
      &verbs_pd(srq.pd()), first, bad, [&](ibv_recv_wr& wr, ibv_recv_wr** refused) {
        return check_call(ibv_post_srq_recv(verbs_srq(srq), &wr, refused), "ibv_post_srq_recv");
      });
}

Result<void> modify_srq(core::Srq& srq, std::optional<std::uint32_t> max_wr,
                        std::optional<std::uint32_t> limit) {
  ibv_srq_attr asked{.max_wr = max_wr.value_or(0), .max_sge = 0, .srq_limit = limit.value_or(0)};
  const int mask = (max_wr ? IBV_SRQ_MAX_WR : 0) | (limit ? IBV_SRQ_LIMIT : 0);
  return check_call(
      verbs_device_of(srq.device()).library().modify_srq(verbs_srq(srq), &asked, mask),
      "ibv_modify_srq");
}

Result<core::SrqAttributes> query_srq(core::Srq& srq) {
  ibv_srq_attr told{};
  if (const auto asked =
          check_call(verbs_device_of(srq.device()).library().query_srq(verbs_srq(srq), &told),
                     "ibv_query_srq");
      !asked) {
    return std::unexpected(asked.error());
  }
  return core::SrqAttributes{
      .max_wr = told.max_wr, .max_sge = told.max_sge, .limit = told.srq_limit};
}

Result<void> destroy_srq(core::Srq& srq) {
  return check_call(verbs_device_of(srq.device()).library().destroy_srq(verbs_srq(srq)),
                    "ibv_destroy_srq");
}

}  // namespace

void add_object_operations(core::DeviceOperations& operations) {
  operations.allocate_pd = allocate_pd;
  operations.deallocate_pd = deallocate_pd;
  operations.create_ah = create_ah;
  operations.destroy_ah = destroy_ah;
  operations.create_cq = create_cq;
  operations.destroy_cq = destroy_cq;
  operations.poll_cq = poll_cq;
  operations.request_notify = request_notify;
  operations.resize_cq = resize_cq;
  operations.create_srq = create_srq;
  operations.modify_srq = modify_srq;
  operations.query_srq = query_srq;
  operations.destroy_srq = destroy_srq;
  operations.post_srq_recv = post_srq_recv;
}

}  // namespace weft::verbs_driver
