#include "core/xrcd.h"

#include <memory>

#include "core/device.h"

namespace weft::core {

Result<Xrcd*> allocate_xrcd(Device& device) {
  if (device.operations().allocate_xrcd == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no XRC", device.name());
  }
  auto xrcd = std::make_unique<Xrcd>(device, device.lock_policy());
  if (const auto made = device.operations().allocate_xrcd(*xrcd); !made) {
    return std::unexpected(made.error());
  }
  device.add_resource(*xrcd);
  return xrcd.release();
}

Result<void> deallocate_xrcd(Xrcd& xrcd) {
  Device& device = xrcd.device();
  if (const std::uint32_t uses = xrcd.uses(); uses != 0) {
    return fail(ErrorCode::Busy, "{} SRQs and target QPs are in the XRC domain", uses);
  }
  if (auto gone = device.operations().deallocate_xrcd(xrcd); !gone) {
    return gone;
  }
  device.remove_resource(xrcd);
  std::unique_ptr<Xrcd>{&xrcd}.reset();
  return {};
}

}  // namespace weft::core
