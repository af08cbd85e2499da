#include "ulp/iser/registration.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.h"
#include "core/device.h"

namespace weft::iser {
namespace {

constexpr std::uint32_t kPageBytes = 4096;

[[nodiscard]] verbs::AccessFlags access_of(bool target_writes) {
  return target_writes ? verbs::AccessFlags{verbs::Access::LocalWrite} | verbs::Access::RemoteWrite
                       : verbs::AccessFlags{verbs::Access::RemoteRead};
}

/// Elements that follow each other in memory are one.
[[nodiscard]] std::vector<core::ScatterEntry> merge(std::span<const core::ScatterEntry> list) {
  std::vector<core::ScatterEntry> merged;
  for (const core::ScatterEntry& entry : list) {
    if (entry.length == 0) {
      continue;
    }
    if (!merged.empty() && merged.back().address + merged.back().length == entry.address) {
      merged.back().length += entry.length;
    } else {
      merged.push_back(entry);
    }
  }
  return merged;
}

}  // namespace

std::string_view name_of(RegistrationScheme scheme) {
  static constexpr std::array<std::string_view, 3> kNames{"fast registration",
                                                          "registration by verbs", "global key"};
  return kNames[std::to_underlying(scheme)];
}

RegistrationScheme choose_scheme(const core::Device& device, bool trusts_target) {
  if (trusts_target) {
    return RegistrationScheme::GlobalKey;
  }
  if (device.attributes().capabilities.has(core::DeviceCapability::MemoryManagementExtensions)) {
    return RegistrationScheme::Fast;
  }
  return device.operations().register_user_mr != nullptr ? RegistrationScheme::Verb
                                                         : RegistrationScheme::GlobalKey;
}

RegistrationPool::RegistrationPool(core::Pd& pd, const Options& options)
    : pd_(pd), options_(options), mrs_(pd.device().lock_policy()) {}

Result<std::unique_ptr<RegistrationPool>> RegistrationPool::create(core::Pd& pd,
                                                                   const Options& options) {
  std::unique_ptr<RegistrationPool> pool{
      new RegistrationPool{pd, options}
  };
  if (options.scheme == RegistrationScheme::Fast) {
    const bool takes_gaps =
        pd.device().attributes().capabilities.has(core::DeviceCapability::SgGapsRegistration);
    const auto filled = pool->mrs_.fill(
        pd, options.count, takes_gaps ? core::MrType::SgGaps : core::MrType::MemoryRegistration,
        options.max_bytes / kPageBytes + 1);
    if (!filled) {
      return std::unexpected(filled.error());
    }
  }
  if (options.scheme == RegistrationScheme::GlobalKey &&
      !pd.flags().has(core::PdFlag::UnsafeGlobalRkey)) {
    return fail(ErrorCode::InvalidArgument, "the PD has no global key; it is allocated with one");
  }
  return pool;
}

RegistrationPool::~RegistrationPool() {
  WEFT_ASSERT(taken_ == 0, "every task has given back what it registered");
  mrs_.clear();
  drop_unused();
}

std::size_t RegistrationPool::free() const {
  return options_.scheme == RegistrationScheme::Fast ? mrs_.size() : options_.count - taken_;
}

Result<Registration> RegistrationPool::map(std::span<const core::ScatterEntry> list,
                                           bool target_writes) {
  const std::vector<core::ScatterEntry> merged = merge(list);
  std::uint64_t bytes = 0;
  for (const core::ScatterEntry& entry : merged) {
    bytes += entry.length;
  }
  if (bytes == 0 || bytes > options_.max_bytes) {
    return fail(ErrorCode::InvalidArgument, "{} bytes in one registration; 1 to {} go", bytes,
                options_.max_bytes);
  }
  if (taken_ == options_.count) {
    return fail(ErrorCode::OutOfMemory, "all {} registrations are in use", options_.count);
  }
  if (options_.scheme == RegistrationScheme::Fast) {
    return map_fast(merged, target_writes);
  }
  if (merged.size() != 1) {
    return fail(ErrorCode::InvalidArgument, "{} pieces of memory; by {} only one piece goes",
                merged.size(), name_of(options_.scheme));
  }
  if (options_.scheme == RegistrationScheme::Verb) {
    return map_by_verb(merged.front(), target_writes);
  }
  ++taken_;
  return Registration{.rkey = pd_.unsafe_global_rkey(), .address = merged.front().address};
}

Result<Registration> RegistrationPool::map_fast(std::span<const core::ScatterEntry> list,
                                                bool /*target_writes*/) {
  core::Mr* const mr = mrs_.get();
  WEFT_ASSERT(mr != nullptr, "the pool has as many as may be taken");
  const auto mapped = core::map_mr_sg(*mr, list, nullptr, kPageBytes);
  if (!mapped || *mapped != list.size()) {
    mrs_.put(*mr);
    return mapped ? fail(ErrorCode::InvalidArgument,
                         "a list of {} elements; the device shows {} of them in one region",
                         list.size(), *mapped)
                  : std::unexpected(mapped.error());
  }
  // A new key each time, so that a stale one reaches nothing (R-ISER-22).
  core::update_fast_registration_key(
      *mr, static_cast<std::uint8_t>(core::next_key(mr->rkey.value()) & 0xFF));
  ++taken_;
  return Registration{.rkey = mr->rkey, .address = mr->iova, .mr = mr, .needs_request = true};
}

Result<Registration> RegistrationPool::map_by_verb(core::ScatterEntry range, bool target_writes) {
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    return kept.address == range.address && kept.length == range.length &&
           kept.target_writes == target_writes;
  });
  if (found != kept_.end()) {
    ++found->users;
    ++taken_;
    return Registration{.rkey = found->mr->rkey, .address = range.address, .mr = found->mr};
  }
  if (kept_.size() >= options_.count) {
    drop_unused();  // all at once, as each costs a call
  }
  const core::UserMemoryRange whole{
      .start = range.address, .length = range.length, .iova = range.address};
  const auto made = core::register_user_mr(pd_, whole, access_of(target_writes), nullptr);
  if (!made) {
    return std::unexpected(made.error());
  }
  kept_.push_back({.mr = *made,
                   .address = range.address,
                   .length = range.length,
                   .target_writes = target_writes,
                   .users = 1});
  ++taken_;
  return Registration{.rkey = (*made)->rkey, .address = range.address, .mr = *made};
}

void RegistrationPool::drop_unused() {
  std::erase_if(kept_, [](const Kept& kept) {
    return kept.users == 0 && core::deregister_mr(*kept.mr).has_value();
  });
}

core::SendWr RegistrationPool::show_request(const Registration& registration, bool target_writes) {
  core::SendWr wr;
  wr.opcode = verbs::WrOpcode::RegisterMemory;
  wr.mr = registration.mr;
  wr.key = registration.rkey.value();
  wr.access = access_of(target_writes);
  return wr;
}

core::SendWr RegistrationPool::hide_request(const Registration& registration) {
  core::SendWr wr;
  wr.opcode = verbs::WrOpcode::LocalInvalidate;
  wr.invalidate_rkey = registration.rkey;
  return wr;
}

void RegistrationPool::release(Registration& registration) {
  WEFT_ASSERT(taken_ != 0, "what is released was taken");
  --taken_;
  if (options_.scheme == RegistrationScheme::Fast) {
    mrs_.put(*registration.mr);
  } else if (options_.scheme == RegistrationScheme::Verb) {
    const auto kept = std::ranges::find(kept_, registration.mr, &Kept::mr);
    --kept->users;
  }
  registration = {};
}

}  // namespace weft::iser
