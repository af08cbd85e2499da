// Address and route resolution of ids, and their options.

#include <cerrno>
#include <cstring>
#include <vector>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

constexpr const char* kNoFamily = "an address is one of AF_INET, AF_INET6 or AF_IB";

[[nodiscard]] std::uint32_t as_timeout(int milliseconds) {
  return milliseconds < 0 ? 0 : static_cast<std::uint32_t>(milliseconds);
}

/// An option of an id: the form of its value, and its name at the daemon.
struct IdOption {
  int name;
  std::size_t bytes;
  verbs::RdmaCmOption option;
  bool is_switch;
};
constexpr IdOption kIdOptions[] = {
    {RDMA_OPTION_ID_TOS,         sizeof(std::uint8_t), verbs::RdmaCmOption::TypeOfService, false},
    {RDMA_OPTION_ID_REUSEADDR,   sizeof(int),          verbs::RdmaCmOption::ReuseAddress,  true },
    {RDMA_OPTION_ID_AFONLY,      sizeof(int),          verbs::RdmaCmOption::AfOnly,        true },
    {RDMA_OPTION_ID_ACK_TIMEOUT, sizeof(std::uint8_t), verbs::RdmaCmOption::AckTimeout,    false},
};

[[nodiscard]] int set_id_option(const Id& id, int name, const void* value, std::size_t bytes) {
  for (const IdOption& each : kIdOptions) {
    if (each.name != name) {
      continue;
    }
    if (bytes != each.bytes) {
      return refuse(EINVAL, "the option's value has another size: int for a switch, else an octet");
    }
    std::uint32_t number = 0;  // this machine is little-endian, as uabi is
    std::memcpy(&number, value, bytes);
    return command(id, uabi::SetRdmaCmOption{.id = id.number,
                                             .option = each.option,
                                             .value = each.is_switch && number != 0 ? 1 : number});
  }
  return refuse(ENOSYS, "ids have no such option");
}

[[nodiscard]] int set_paths(const Id& id, const void* value, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(ibv_path_data);
  if (count == 0 || bytes % sizeof(ibv_path_data) != 0 || count > uabi::kMaxRdmaCmPaths) {
    return refuse(EINVAL, "paths are 1 to 6 structures ibv_path_data");
  }
  std::vector<ibv_path_data> given(count);
  std::memcpy(given.data(), value, bytes);
  uabi::SetRdmaCmPaths question{.id = id.number, .paths = {}};
  for (const ibv_path_data& each : given) {
    const auto path = to_daemon(each);
    if (!path) {
      return refuse(EINVAL, "a path's MTU is 1 (256 bytes) to 5 (4096 bytes)");
    }
    question.paths.push_back(*path);
  }
  return command(id, question);
}

}  // namespace
}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_bind_addr(rdma_cm_id* cm, sockaddr* address) {
  Id& id = id_of(cm);
  const auto wanted = to_daemon(address);
  if (!wanted || wanted->family == uabi::RdmaCmFamily::None) {
    return refuse(EINVAL, kNoFamily);
  }
  if (command(id, uabi::BindRdmaCmId{.id = id.number, .address = *wanted}) != 0) {
    return -1;
  }
  return refresh(id);
}

WEFT_EXPORT int rdma_resolve_addr(rdma_cm_id* cm, sockaddr* source, sockaddr* destination,
                                  int timeout_ms) {
  Id& id = id_of(cm);
  const auto from = to_daemon(source);
  const auto to = to_daemon(destination);
  if (!from || !to || to->family == uabi::RdmaCmFamily::None) {
    return refuse(EINVAL, kNoFamily);
  }
  if (command(id, uabi::ResolveRdmaCmAddress{.id = id.number,
                                             .source = *from,
                                             .destination = *to,
                                             .timeout_ms = as_timeout(timeout_ms)}) != 0) {
    return -1;
  }
  from_daemon(*to, cm->route.addr.dst_storage);
  return complete(id);
}

WEFT_EXPORT int rdma_resolve_route(rdma_cm_id* cm, int timeout_ms) {
  Id& id = id_of(cm);
  if (command(id, uabi::ResolveRdmaCmRoute{.id = id.number,
                                           .timeout_ms = as_timeout(timeout_ms)}) != 0) {
    return -1;
  }
  return complete(id);
}

WEFT_EXPORT int rdma_listen(rdma_cm_id* cm, int backlog) {
  Id& id = id_of(cm);
  const uabi::ListenRdmaCm question{
      .id = id.number, .backlog = backlog < 0 ? 0 : static_cast<std::uint32_t>(backlog)};
  return command(id, question) == 0 ? refresh(id) : -1;
}

WEFT_EXPORT int rdma_set_option(rdma_cm_id* cm, int level, int name, void* value,
                                std::size_t bytes) {
  const Id& id = id_of(cm);
  if (value == nullptr) {
    return refuse(EINVAL, "the option has no value");
  }
  if (level == RDMA_OPTION_ID) {
    return set_id_option(id, name, value, bytes);
  }
  if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) {
    return set_paths(id, value, bytes);
  }
  return refuse(ENOSYS, "options are those of RDMA_OPTION_ID, and RDMA_OPTION_IB_PATH");
}

WEFT_EXPORT __be16 rdma_get_src_port(rdma_cm_id* cm) { return port_of(&cm->route.addr.src_addr); }

WEFT_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* cm) { return port_of(&cm->route.addr.dst_addr); }

}  // extern "C"
