#pragma once

#include <rdma/ib_verbs.h>

#include "core/device.h"
#include "core/registry.h"

namespace weft::kernel {

/// Gives each device of a registry an ib_device: as the first client of all, so that others have it
/// when they are told of the device, and until they have left it.
void attach_faces(core::Registry& registry);
void detach_faces(core::Registry& registry);

/// Null: the device is not registered (any more).
[[nodiscard]] ib_device* face_of(const core::Device& device);
[[nodiscard]] inline core::Device& core_of(const ib_device& device) {
  return *static_cast<core::Device*>(device.weft);
}

/// An event as C has it, whose element is that of the object's face.
[[nodiscard]] ib_event event_of(const core::Event& event);

}  // namespace weft::kernel
