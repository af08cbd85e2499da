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

// A new key each time, so that a stale one reaches nothing (R-ISER-22).
void renew_key(core::Mr& mr) {
  core::update_fast_registration_key(
      mr, static_cast<std::uint8_t>(core::next_key(mr.rkey.value()) & 0xFF));
}

}  // namespace

std::string_view name_of(RegistrationScheme scheme) {
  static constexpr std::array<std::string_view, 4> kNames{"fast registration", "FMR",
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
  if (device.operations().allocate_fmr != nullptr) {
    return RegistrationScheme::Fmr;
  }
  return device.operations().register_user_mr != nullptr ? RegistrationScheme::Verb
                                                         : RegistrationScheme::GlobalKey;
}

RegistrationPool::RegistrationPool(core::Pd& pd, const Options& options)
    : pd_(pd),
      options_(options),
      mrs_(pd.device().lock_policy()),
      protected_mrs_(pd.device().lock_policy()) {}

Result<std::unique_ptr<RegistrationPool>> RegistrationPool::create(core::Pd& pd,
                                                                   const Options& options) {
  std::unique_ptr<RegistrationPool> pool{
      new RegistrationPool{pd, options}
  };
  Result<void> filled;
  if (options.scheme == RegistrationScheme::Fast) {
    filled = pool->fill_fast();
  } else if (options.scheme == RegistrationScheme::Fmr) {
    filled = pool->fill_fmrs();
  } else if (options.scheme == RegistrationScheme::GlobalKey &&
             !pd.flags().has(core::PdFlag::UnsafeGlobalRkey)) {
    filled = fail(ErrorCode::InvalidArgument, "the PD has no global key; it is allocated with one");
  }
  if (!filled) {
    return std::unexpected(filled.error());
  }
  return pool;
}

Result<void> RegistrationPool::fill_fast() {
  const core::DeviceAttributes& device = pd_.device().attributes();
  const std::uint32_t pages = options_.max_bytes / kPageBytes + 1;
  const bool takes_gaps = device.capabilities.has(core::DeviceCapability::SgGapsRegistration);
  auto filled =
      mrs_.fill(pd_, options_.count,
                takes_gaps ? core::MrType::SgGaps : core::MrType::MemoryRegistration, pages);
  if (filled && options_.protected_count != 0) {
    const std::uint32_t entries = std::min(pages, device.max_integrity_entries);
    filled = protected_mrs_.fill(pd_, options_.protected_count, core::MrType::Integrity, entries,
                                 entries);
  }
  return filled;
}

// Twice as many as are taken at a time, so that a batch that waits to be unmapped leaves enough.
Result<void> RegistrationPool::fill_fmrs() {
  const auto made =
      core::create_fmr_pool(pd_, {
                                     .region = {.max_pages = options_.max_bytes / kPageBytes + 1,
                                                .access = access_of(true) | access_of(false)},
                                     .pool_size = 2 * options_.count,
                                     .dirty_watermark = options_.count
  });
  if (!made) {
    return std::unexpected(made.error());
  }
  fmrs_ = *made;
  return {};
}

RegistrationPool::~RegistrationPool() {
  WEFT_ASSERT(taken_ == 0, "every task has given back what it registered");
  mrs_.clear();
  protected_mrs_.clear();
  if (fmrs_ != nullptr) {
    core::destroy_fmr_pool(*fmrs_);
  }
  drop_unused([](const Kept& /*kept*/) { return true; });
}

std::size_t RegistrationPool::free() const {
  return options_.scheme == RegistrationScheme::Fast ? mrs_.size() : options_.count - taken_;
}

// The bytes of a list that may be registered now.
Result<std::uint64_t> RegistrationPool::check_bytes(
    std::span<const core::ScatterEntry> list) const {
  std::uint64_t bytes = 0;
  for (const core::ScatterEntry& entry : list) {
    bytes += entry.length;
  }
  if (bytes == 0 || bytes > options_.max_bytes) {
    return fail(ErrorCode::InvalidArgument, "{} bytes in one registration; 1 to {} go", bytes,
                options_.max_bytes);
  }
  if (taken_ == options_.count) {
    return fail(ErrorCode::OutOfMemory, "all {} registrations are in use", options_.count);
  }
  return bytes;
}

Result<Registration> RegistrationPool::map(std::span<const core::ScatterEntry> list,
                                           bool target_writes) {
  std::vector<core::ScatterEntry> several;
  std::span<const core::ScatterEntry> merged = list;  // as most are
  if (list.size() != 1) {
    several = merge(list);
    merged = several;
  }
  if (const auto bytes = check_bytes(merged); !bytes) {
    return std::unexpected(bytes.error());
  }
  if (options_.scheme == RegistrationScheme::Fast) {
    return map_fast(merged);
  }
  if (options_.scheme == RegistrationScheme::Fmr) {
    return map_by_fmr(merged);
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

Result<Registration> RegistrationPool::map_fast(std::span<const core::ScatterEntry> list) {
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
  renew_key(*mr);
  ++taken_;
  return Registration{.rkey = mr->rkey, .address = mr->iova, .mr = mr, .needs_request = true};
}

Result<Registration> RegistrationPool::map_protected(std::span<const core::ScatterEntry> list,
                                                     const TaskProtection& protection) {
  if (!protects()) {
    return fail(ErrorCode::NotSupported,
                "the connection moves no protection information: it was not asked for, or the "
                "device has no integrity regions");
  }
  const std::vector<core::ScatterEntry> data = merge(list);
  const std::vector<core::ScatterEntry> tuples = merge(protection.tuples);
  if (const auto bytes = check_bytes(data); !bytes) {
    return std::unexpected(bytes.error());
  }
  core::Mr* const mr = protected_mrs_.get();
  if (mr == nullptr) {
    return fail(ErrorCode::OutOfMemory, "all {} registrations with protection are in use",
                options_.protected_count);
  }
  *mr->signature = signature_of(protection);
  if (const auto mapped = core::map_mr_sg_pi(*mr, {.list = data}, {.list = tuples}, kPageBytes);
      !mapped) {
    protected_mrs_.put(*mr);
    return std::unexpected(mapped.error());
  }
  renew_key(*mr);
  ++taken_;
  return Registration{.rkey = mr->rkey, .address = mr->iova, .mr = mr, .needs_request = true};
}

core::SignatureStatus RegistrationPool::status_of(const Registration& registration) {
  const auto status = core::check_mr_status(*registration.mr);
  // A device that cannot say leaves the data in doubt: as if its first guard were wrong.
  return status.value_or(core::SignatureStatus{.failed = true});
}

// By pages: all but the first element begin with one, all but the last end with one.
Result<Registration> RegistrationPool::map_by_fmr(std::span<const core::ScatterEntry> list) {
  std::vector<std::uint64_t> pages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::uint64_t end = list[i].address + list[i].length;
    if ((i != 0 && list[i].address % kPageBytes != 0) ||
        (i + 1 != list.size() && end % kPageBytes != 0)) {
      return fail(ErrorCode::InvalidArgument,
                  "element {} of {} leaves a gap between pages, which FMRs do not show", i,
                  list.size());
    }
    const std::uint64_t first = list[i].address - list[i].address % kPageBytes;
    for (std::uint64_t page = first; page < end; page += kPageBytes) {
      pages.push_back(page);
    }
  }
  const std::uint64_t iova = list.front().address - list.front().address % kPageBytes;
  auto made = fmrs_->map(pages, iova);
  if (!made && made.error().code == ErrorCode::TryAgain) {
    // Those that were given back wait to be unmapped: done now, there are enough.
    if (const auto flushed = fmrs_->flush(); !flushed) {
      return std::unexpected(flushed.error());
    }
    made = fmrs_->map(pages, iova);
  }
  if (!made) {
    return std::unexpected(made.error());
  }
  ++taken_;
  return Registration{.rkey = (*made)->fmr().rkey, .address = list.front().address, .fmr = *made};
}

RegistrationPool::Kept* RegistrationPool::find_kept(core::ScatterEntry range, bool target_writes) {
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    const std::uint64_t before = range.address - kept.memory.address;
    return kept.target_writes == target_writes && range.address >= kept.memory.address &&
           before <= kept.memory.length && range.length <= kept.memory.length - before;
  });
  return found != kept_.end() ? &*found : nullptr;
}

Result<RegistrationPool::Kept*> RegistrationPool::keep(KeptMemory memory, bool target_writes) {
  const auto made = core::register_user_mr(
      pd_, {.start = memory.address, .length = memory.length, .iova = memory.address},
      access_of(target_writes), nullptr);
  if (!made) {
    return std::unexpected(made.error());
  }
  kept_.push_back({.mr = *made, .memory = std::move(memory), .target_writes = target_writes});
  return &kept_.back();
}

Result<Registration> RegistrationPool::map_by_verb(core::ScatterEntry range, bool target_writes) {
  Kept* found = find_kept(range, target_writes);
  if (found == nullptr) {
    // What only its registration holds is not used for data any more.
    drop_unused([](const Kept& kept) { return kept.memory.holder.use_count() == 1; });
    if (kept_.size() >= options_.count) {
      drop_unused([](const Kept& /*kept*/) { return true; });  // at once, as each costs a call
    }
    const KeptMemory own{.address = range.address, .length = range.length};
    auto whole = options_.kept_memory ? options_.kept_memory(range.address, range.length)
                                      : std::optional<KeptMemory>{};
    auto made = keep(whole ? *std::move(whole) : own, target_writes);
    if (!made && options_.kept_memory) {
      made = keep(own, target_writes);  // a limit of memory that may be locked has room for less
    }
    if (!made) {
      return std::unexpected(made.error());
    }
    found = *made;
  }
  ++found->users;
  ++taken_;
  return Registration{.rkey = found->mr->rkey, .address = range.address, .mr = found->mr};
}

void RegistrationPool::drop_unused(bool (*is_dropped)(const Kept& kept)) {
  std::erase_if(kept_, [is_dropped](const Kept& kept) {
    return kept.users == 0 && is_dropped(kept) && core::deregister_mr(*kept.mr).has_value();
  });
}

core::SendWr RegistrationPool::show_request(const Registration& registration, bool target_writes) {
  core::SendWr wr;
  wr.opcode = is_protected(registration) ? verbs::WrOpcode::RegisterMemoryIntegrity
                                         : verbs::WrOpcode::RegisterMemory;
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
    (is_protected(registration) ? protected_mrs_ : mrs_).put(*registration.mr);
  } else if (options_.scheme == RegistrationScheme::Fmr) {
    fmrs_->unmap(*registration.fmr);
  } else if (options_.scheme == RegistrationScheme::Verb) {
    const auto kept = std::ranges::find(kept_, registration.mr, &Kept::mr);
    --kept->users;
  }
  registration = {};
}

}  // namespace weft::iser
