#include "compat/ibverbs/foreign_objects.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compat/ibverbs/objects.h"
#include "os/fork_boundary.h"
#include "os/shared_backing.h"

namespace weft::compat {
namespace {

constexpr auto kWrites = hca::AccessFlags{hca::Access::LocalWrite} | hca::Access::RemoteWrite |
                         hca::Access::RemoteAtomic;

template <class Object>
using Known = std::map<std::uint32_t, std::weak_ptr<Object>>;

template <class Object>
[[nodiscard]] std::shared_ptr<Object> find_known(Known<Object>& known, std::uint32_t number) {
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  const auto found = known.find(number);
  return found == known.end() ? nullptr : found->second.lock();
}

std::mutex devices_lock;
Known<PeerDevice>& devices =
    *new Known<PeerDevice>;  // never destroyed, like the threads that use it

/// The daemon already knows of the end of objects of a forked process, or of one whose fabric is
/// gone.
[[nodiscard]] bool may_use_daemon() { return !os::is_child_of_fork(); }

}  // namespace

// --- devices

Result<std::shared_ptr<PeerDevice>> import_peer_device(host::Process& process, int command) {
  const auto imported = process.import_device(command);
  if (!imported) {
    return std::unexpected(imported.error());
  }
  const std::lock_guard guard{devices_lock};
  if (auto known = find_known(devices, imported->number)) {
    process.leave_device(*imported);  // one reference suffices
    return known;
  }
  auto device = std::make_shared<PeerDevice>(process, *imported);
  devices[imported->number] = device;
  return device;
}

PeerDevice::PeerDevice(host::Process& process, const host::ImportedDevice& device)
    : process_(process), device_(device) {}

PeerDevice::~PeerDevice() {
  if (may_use_daemon()) {
    process_.leave_device(device_);
  }
}

hca::Hca& PeerDevice::engine() const { return *process_.hcas()[device_.hca].engine; }

void PeerDevice::tell(uabi::ImportVerb verb, std::uint32_t handle) const {
  if (may_use_daemon()) {
    static_cast<void>(!ask(verb, handle));
  }
}

Result<std::shared_ptr<PeerPd>> PeerDevice::import_domain(std::uint32_t handle) {
  const auto there = ask(uabi::ImportVerb::Pd, handle);
  if (!there) {
    return std::unexpected(there.error());
  }
  const std::lock_guard guard{lock_};
  if (auto known = find_known(domains_, handle)) {
    return known;
  }
  const auto made = engine().allocate_pd();
  if (!made) {
    return std::unexpected(made.error());
  }
  auto domain = std::make_shared<PeerPd>(shared_from_this(), handle, **made);
  domains_[handle] = domain;
  return domain;
}

// --- PDs

PeerPd::~PeerPd() {
  if (may_use_daemon()) {
    static_cast<void>(device_->engine().deallocate_pd(engine_));
  }
}

void PeerPd::hold() {
  const std::lock_guard guard{lock_};
  if (holds_++ == 0) {
    device_->tell(uabi::ImportVerb::HoldPd, handle_);
  }
}

void PeerPd::release_hold() {
  const std::lock_guard guard{lock_};
  if (--holds_ == 0) {
    device_->tell(uabi::ImportVerb::ReleasePd, handle_);
  }
}

Result<void> PeerPd::deallocate() const {
  const auto done = device_->ask(uabi::ImportVerb::DeallocatePd, handle_);
  return done ? Result<void>{} : Result<void>{std::unexpected(done.error())};
}

Result<std::shared_ptr<PeerMr>> PeerPd::import_region(std::uint32_t handle) {
  const auto region = device_->ask(uabi::ImportVerb::Region, handle);
  if (!region) {
    return std::unexpected(region.error());
  }
  if (region->pd != handle_) {
    return fail(ErrorCode::InvalidArgument, "the region is of another PD");
  }
  const std::lock_guard guard{lock_};
  if (auto known = find_known(regions_, handle)) {
    return known;
  }
  const auto access = hca::AccessFlags::from_bits(region->access);
  std::byte* const memory = region->is_shared
                                ? os::find_mapping({.device = region->file_device,
                                                    .inode = region->file_inode,
                                                    .offset = region->file_offset},
                                                   region->length, (access & kWrites).bits() != 0)
                                : nullptr;
  const auto engine = device_->engine().import_memory(engine_, RKey{region->key}, region->iova,
                                                      region->length, memory, access);
  if (!engine) {
    return std::unexpected(engine.error());
  }
  if (memory == nullptr) {
    explain(region->is_shared
                ? "the imported region's memory is shared, but not mapped in this process: it has "
                  "its keys, and no QP of this process reaches it"
                : "the imported region's memory is private to its process: it has its keys, and no "
                  "QP of this process reaches it; what is mapped in both (MAP_SHARED) would be");
  }
  auto imported = std::make_shared<PeerMr>(shared_from_this(), handle, **engine);
  regions_[handle] = imported;
  return imported;
}

// --- regions

PeerMr::~PeerMr() {
  if (may_use_daemon()) {
    domain_->device().engine().remove_memory(engine_);
  }
}

Result<void> PeerMr::deregister() const {
  const auto done = domain_->device().ask(uabi::ImportVerb::DeregisterRegion, handle_);
  return done ? Result<void>{} : Result<void>{std::unexpected(done.error())};
}

// --- for the owner

namespace {

/// PDs that contain objects of other processes.
struct Held {
  std::uint32_t device{};
  uabi::ProcessAddress importer;
  hca::ProtectionDomain* domain{};
};
std::mutex held_lock;
std::vector<Held>& held = *new std::vector<Held>;

/// Policy: total over all importers.
constexpr std::size_t kMaxHeld = 65'536;

[[nodiscard]] Error no_such(std::string_view what, std::uint32_t handle) {
  return {ErrorCode::NotFound, fmt::format("the device has no {} with handle {}", what, handle)};
}

[[nodiscard]] Result<void> describe(const Handles& handles, std::uint32_t handle,
                                    uabi::ObjectAnswer& answer) {
  const auto region = handles.regions.find(handle);
  if (!region) {
    return std::unexpected(no_such("region", handle));
  }
  const hca::MemoryRegion& engine = *region->engine;
  answer.pd = handles.domains.handle_of(engine.pd).value_or(0);
  answer.key = engine.rkey.value();
  answer.access = engine.access.bits();
  answer.iova = engine.iova;
  answer.length = engine.length;
  if (engine.backing == hca::Backing::Range) {
    if (const auto backing = os::shared_backing_of({engine.memory, engine.length})) {
      answer.is_shared = true;
      answer.file_device = backing->device;
      answer.file_inode = backing->inode;
      answer.file_offset = backing->offset;
    }
  }
  return {};
}

[[nodiscard]] Result<void> hold_for(const uabi::ObjectRequest& question, const Handles& handles) {
  const auto domain = handles.domains.find(question.handle);
  const std::lock_guard guard{held_lock};
  if (!domain || held.size() >= kMaxHeld) {
    return std::unexpected(no_such("PD", question.handle));
  }
  (*domain)->uses.fetch_add(1);
  held.push_back({.device = question.device, .importer = question.peer, .domain = *domain});
  return {};
}

[[nodiscard]] Result<void> release_for(const uabi::ObjectRequest& question,
                                       const Handles& handles) {
  const auto domain = handles.domains.find(question.handle);
  const std::lock_guard guard{held_lock};
  const auto found = std::ranges::find_if(held, [&](const Held& each) {
    return domain && each.domain == *domain && each.device == question.device &&
           each.importer == question.peer;
  });
  if (found == held.end()) {
    return std::unexpected(no_such("PD", question.handle));
  }
  (*domain)->uses.fetch_sub(1);
  held.erase(found);
  return {};
}

[[nodiscard]] Result<void> carry_out(const uabi::ObjectRequest& question, const Context& context,
                                     uabi::ObjectAnswer& answer) {
  Handles& handles = *context.handles;
  switch (question.verb) {
    case uabi::ImportVerb::Pd:
      return handles.domains.find(question.handle)
                 ? Result<void>{}
                 : Result<void>{std::unexpected(no_such("PD", question.handle))};
    case uabi::ImportVerb::Region:
      return describe(handles, question.handle, answer);
    case uabi::ImportVerb::HoldPd:
      return hold_for(question, handles);
    case uabi::ImportVerb::ReleasePd:
      return release_for(question, handles);
    case uabi::ImportVerb::DeallocatePd: {
      const auto domain = handles.domains.find(question.handle);
      if (!domain) {
        return std::unexpected(no_such("PD", question.handle));
      }
      auto freed = context.engine->deallocate_pd(**domain);
      if (freed) {
        handles.domains.remove(question.handle);
      }
      return freed;
    }
    case uabi::ImportVerb::DeregisterRegion: {
      const auto region = handles.regions.remove(question.handle);
      if (!region) {
        return std::unexpected(no_such("region", question.handle));
      }
      auto gone = context.engine->deregister_memory(*region->engine);
      if (!gone) {
        handles.regions.set(question.handle, *region);
      } else if (region->device_memory) {
        --region->device_memory->regions;
      }
      return gone;
    }
  }
  return {};
}

}  // namespace

uabi::ObjectAnswer answer_importer(const uabi::ObjectRequest& question) {
  uabi::ObjectAnswer answer;
  const auto done = with_context_of(
      question.inode, [&](const Context& context) { return carry_out(question, context, answer); });
  if (!done) {
    answer.error = static_cast<std::uint8_t>(static_cast<unsigned>(done.error().code) + 1);
    answer.reason = done.error().reason;
  }
  return answer;
}

void remove_importer(std::uint32_t device, uabi::ProcessAddress importer) {
  const std::lock_guard guard{held_lock};
  std::erase_if(held, [&](const Held& each) {
    const bool goes = each.device == device && each.importer == importer;
    if (goes) {
      each.domain->uses.fetch_sub(1);
    }
    return goes;
  });
}

}  // namespace weft::compat
