// rdma_getaddrinfo(3) with RAI_SA: finds a service in SA, from whichever port of the host can reach
// it.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "compat/rdmacm/address_request.h"
#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/later.h"
#include "compat/rdmacm/refusals.h"

namespace weft::compat {
namespace {

struct DestroyId {
  void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
};
using OwnId = std::unique_ptr<rdma_cm_id, DestroyId>;

struct FreeDevices {
  void operator()(ibv_context** devices) const { rdma_free_devices(devices); }
};

/// The address of a port, for an id of the IB port space that is given its service ID.
[[nodiscard]] sockaddr_ib address_of(const ibv_gid& gid, __be16 pkey) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_pkey = pkey;
  std::memcpy(&address.sib_addr, &gid, sizeof address.sib_addr);
  address.sib_sid = htobe64(std::uint64_t{RDMA_PS_IB} << 16);
  address.sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK);
  return address;
}

/// Sets the source address of each entry to the port. False after refuse().
[[nodiscard]] bool add_source(rdma_addrinfo* all, const ibv_gid& gid) {
  for (rdma_addrinfo* each = all; each != nullptr; each = each->ai_next) {
    sockaddr_ib there{};
    std::memcpy(&there, each->ai_dst_addr, sizeof there);
    auto* const here = static_cast<sockaddr_ib*>(std::malloc(sizeof(sockaddr_ib)));
    if (here == nullptr) {
      refuse(ENOMEM, "no memory for address information");
      return false;
    }
    *here = address_of(gid, there.sib_pkey);
    each->ai_src_addr = static_cast<sockaddr*>(static_cast<void*>(here));
    each->ai_src_len = sizeof *here;
  }
  return true;
}

/// Null after refuse().
[[nodiscard]] Information ask_port(const ibv_gid& gid, const char* service) {
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(nullptr, &made, nullptr, RDMA_PS_IB) != 0) {
    return nullptr;
  }
  const OwnId id{made};
  sockaddr_ib address = address_of(gid, 0);
  rdma_addrinfo hints{};
  hints.ai_flags = kFromSa;
  rdma_addrinfo* found = nullptr;
  if (rdma_bind_addr(id.get(), static_cast<sockaddr*>(static_cast<void*>(&address))) != 0 ||
      rdma_resolve_addrinfo(id.get(), nullptr, service, &hints) != 0 ||
      rdma_query_addrinfo(id.get(), &found) != 0) {
    return nullptr;
  }
  Information all{found};
  return add_source(all.get(), gid) ? std::move(all) : nullptr;
}

/// Null if none of its ports finds the service.
[[nodiscard]] Information ask_device(ibv_context* device, const char* service) {
  ibv_device_attr attributes{};
  if (ibv_query_device(device, &attributes) != 0) {
    return nullptr;
  }
  for (unsigned port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr state{};
    ibv_gid gid{};
    const auto number = static_cast<std::uint8_t>(port);
    if (ibv_query_port(device, number, &state) != 0 || state.state != IBV_PORT_ACTIVE ||
        state.link_layer != IBV_LINK_LAYER_INFINIBAND ||
        ibv_query_gid(device, number, 0, &gid) != 0) {
      continue;
    }
    if (Information found = ask_port(gid, service)) {
      return found;
    }
  }
  return nullptr;
}

}  // namespace

int look_for_service(const char* service, rdma_addrinfo** out) {
  int count = 0;
  const std::unique_ptr<ibv_context*, FreeDevices> devices{rdma_get_devices(&count)};
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (Information found = ask_device(devices.get()[i], service)) {
      *out = found.release();
      return 0;
    }
  }
  return refuse(ENOENT, "SA of no port of this host knows the service");
}

}  // namespace weft::compat
