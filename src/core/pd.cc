#include "core/pd.h"

#include <fmt/format.h>

#include <memory>

#include "core/device.h"
#include "core/mr.h"

namespace weft::core {

Result<Pd*> allocate_pd(Device& device, PdFlags flags, const char* caller, UserData* user_data) {
  if (device.operations().allocate_pd == nullptr) {
    return fail(ErrorCode::NotSupported, "the driver of {} has no PDs", device.name());
  }
  auto pd = std::make_unique<Pd>(device, caller, flags);
  if (const auto made = device.operations().allocate_pd(*pd, user_data); !made) {
    return std::unexpected(made.error());
  }
  device.add_resource(*pd);
  const DeviceAttributes& attributes = device.attributes();
  verbs::AccessFlags access;
  if (attributes.capabilities.has(DeviceCapability::LocalDmaLkey)) {
    pd->local_dma_lkey_ = LKey{attributes.local_dma_lkey};
  } else {
    access |= verbs::Access::LocalWrite;
  }
  if (flags.has(PdFlag::UnsafeGlobalRkey)) {
    device.environment().log(
        LogLevel::Warning,
        fmt::format("{} opens all memory to its peers on {}", caller, device.name()));
    access |= verbs::AccessFlags{verbs::Access::LocalWrite} | verbs::Access::RemoteRead |
              verbs::Access::RemoteWrite;
  }
  if (access.empty() || user_data != nullptr) {  // a program's PD registers what it needs
    return pd.release();
  }
  const auto region = get_dma_mr(*pd, access, caller);
  if (!region) {
    static_cast<void>(device.operations().deallocate_pd(*pd, user_data));
    device.remove_resource(*pd);
    return std::unexpected(region.error());
  }
  pd->internal_mr_ = *region;
  pd->put();  // the region is no object of a user's
  if (!attributes.capabilities.has(DeviceCapability::LocalDmaLkey)) {
    pd->local_dma_lkey_ = (*region)->lkey;
  }
  if (flags.has(PdFlag::UnsafeGlobalRkey)) {
    pd->unsafe_global_rkey_ = (*region)->rkey;
  }
  return pd.release();
}

Result<void> deallocate_pd(Pd& pd, UserData* user_data) {
  Device& device = pd.device();
  if (const std::uint32_t uses = pd.uses(); uses != 0) {
    return fail(ErrorCode::Busy, "{} objects are left in the PD of {}; destroy those first", uses,
                pd.caller());
  }
  if (pd.internal_mr_ != nullptr) {
    pd.hold();  // as a region's PD is while it is there
    if (auto gone = deregister_mr(*pd.internal_mr_); !gone) {
      pd.put();
      return gone;
    }
    pd.internal_mr_ = nullptr;
  }
  if (auto gone = device.operations().deallocate_pd(pd, user_data); !gone) {
    return gone;
  }
  device.remove_resource(pd);
  std::unique_ptr<Pd>{&pd}.reset();
  return {};
}

}  // namespace weft::core
