// Look-ups in the tables of all ports of a device, by the names of the kernel's calls.

#include "core/device.h"
#include "core/port_cache.h"

namespace weft::core {
namespace {

/// `look(cache)` of a port that exists, or why it does not.
template <class Look>
auto at_port(Device& device, PortNumber port, Look look) -> decltype(look(device.cache(port))) {
  if (const auto known = device.check_port(port); !known) {
    return std::unexpected(known.error());
  }
  return look(device.cache(port));
}

/// The first result that `look(port)` has, of all ports.
template <class Look>
auto of_any_port(Device& device, Look look) -> decltype(look(PortNumber{})) {
  for (unsigned number = device.first_port().value(); number <= device.last_port().value();
       ++number) {
    if (auto found = look(PortNumber{static_cast<std::uint8_t>(number)}); found) {
      return found;
    }
  }
  return fail(ErrorCode::NotFound, "no port of {} has this GID", device.name());
}

}  // namespace

Result<GidReference> get_gid(Device& device, PortNumber port, std::uint32_t index) {
  return at_port(device, port, [&](const PortCache& cache) { return cache.gid_at(index); });
}

Result<Gid> query_gid(Device& device, PortNumber port, std::uint32_t index) {
  const auto found = get_gid(device, port, index);
  if (!found) {
    return std::unexpected(found.error());
  }
  return (*found)->gid();
}

Result<GidPlace> find_gid(Device& device, const Gid& gid) {
  return of_any_port(device, [&](PortNumber port) -> Result<GidPlace> {
    if (device.link_layer(port) != LinkLayer::Infiniband) {
      return fail(ErrorCode::NotFound, "the port is not InfiniBand's");
    }
    const auto found = device.cache(port).find_gid(gid);
    if (!found) {
      return std::unexpected(found.error());
    }
    return GidPlace{.port = port, .index = static_cast<std::uint16_t>((*found)->index())};
  });
}

Result<GidReference> find_cached_gid(Device& device, const Gid& gid, std::optional<GidType> type,
                                     const NetDevice* net_device) {
  return of_any_port(
      device, [&](PortNumber port) { return device.cache(port).find_gid(gid, type, net_device); });
}

Result<GidReference> find_cached_gid(Device& device, PortNumber port, const Gid& gid,
                                     std::optional<GidType> type, const NetDevice* net_device) {
  return at_port(device, port,
                 [&](const PortCache& cache) { return cache.find_gid(gid, type, net_device); });
}

Result<PKey> query_pkey(Device& device, PortNumber port, std::uint32_t index) {
  return at_port(device, port, [&](const PortCache& cache) -> Result<PKey> {
    if (auto known = cache.pkey_at(index); !known || device.operations().query_pkey == nullptr) {
      return known;
    }
    return device.operations().query_pkey(device, port, index);
  });
}

Result<std::uint16_t> find_pkey(Device& device, PortNumber port, PKey pkey) {
  return find_cached_pkey(device, port, pkey);
}

Result<PKey> get_cached_pkey(Device& device, PortNumber port, std::uint32_t index) {
  return at_port(device, port, [&](const PortCache& cache) { return cache.pkey_at(index); });
}

Result<std::uint16_t> find_cached_pkey(Device& device, PortNumber port, PKey pkey) {
  return at_port(device, port, [&](const PortCache& cache) { return cache.find_pkey(pkey); });
}

Result<std::uint16_t> find_exact_cached_pkey(Device& device, PortNumber port, PKey pkey) {
  return at_port(device, port, [&](const PortCache& cache) { return cache.find_exact_pkey(pkey); });
}

Result<std::uint8_t> get_cached_lmc(Device& device, PortNumber port) {
  return at_port(device, port,
                 [](const PortCache& cache) { return Result<std::uint8_t>{cache.lmc()}; });
}

Result<verbs::PortState> get_cached_port_state(Device& device, PortNumber port) {
  return at_port(device, port,
                 [](const PortCache& cache) { return Result<verbs::PortState>{cache.state()}; });
}

Result<std::uint64_t> get_cached_subnet_prefix(Device& device, PortNumber port) {
  return at_port(device, port, [](const PortCache& cache) {
    return Result<std::uint64_t>{cache.subnet_prefix()};
  });
}

}  // namespace weft::core
