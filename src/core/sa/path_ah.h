#pragma once

#include "base/identifiers.h"
#include "base/result.h"
#include "core/ah.h"
#include "core/port_cache.h"
#include "wire/mad/path_record.h"

namespace weft::core {

class Device;

/// Attributes of an address handle that leads along a path (`ib_init_ah_attr_from_path`). They hold
/// the source GID if they have a GRH: on InfiniBand where the path leaves the subnet (hop limit
/// above 1), on RoCE always. `sgid` is that GID; empty: the one of the port that the path names.
/// InvalidArgument: no such port, rate or source GID; on failure nothing is held.
Result<AhAttributes> init_ah_attributes_from_path(Device& device, PortNumber port,
                                                  const wire::PathRecord& path,
                                                  GidReference sgid = {});

}  // namespace weft::core
