// Ports: their attributes, GIDs and P_Keys.

#include <endian.h>
#include <fmt/format.h>

#include <cerrno>
#include <vector>

#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

/// Policy: the most entries that a port's table can have.
constexpr int kGidTableLength = 8;

[[nodiscard]] bool has_port(const Context& context, unsigned port) {
  return port >= 1 && port <= context.process->hcas()[context.hca].port_count;
}

[[nodiscard]] ibv_port_attr port_attributes(const Context& context, std::uint8_t number) {
  const fabric::PortRecord port = context.process->port_record(context.hca, PortNumber{number});
  const verbs::PortAttributes seen = fabric::attributes_of(port, {}, {});
  ibv_port_attr out{};
  out.state =
      static_cast<ibv_port_state>(seen.state);  // both have the numbers of PortInfo PortState
  out.max_mtu = static_cast<ibv_mtu>(port.max_mtu);
  out.active_mtu = static_cast<ibv_mtu>(port.active_mtu);
  out.gid_tbl_len = kGidTableLength;
  out.port_cap_flags =
      IBV_PORT_AUTO_MIGR_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CLIENT_REG_SUP;
  out.max_msg_sz = context.engine->configuration().limits.max_message_bytes;
  out.pkey_tbl_len = port.pkey_count;
  out.lid = static_cast<std::uint16_t>(seen.lid.value());
  out.sm_lid = static_cast<std::uint16_t>(port.sm_lid.value());
  out.sm_sl = port.sm_sl.value();
  out.lmc = port.lmc;
  out.max_vl_num = 1;  // encoding of VL0 alone (IBTA vol 1 §14.2.5.6)
  out.active_width = port.active_width;
  out.active_speed = port.active_speed_extended != 0
                         ? static_cast<std::uint8_t>(port.active_speed_extended << 4)
                         : port.active_speed;
  out.phys_state = seen.state == fabric::PortState::Down ? 3 : 5;  // Disabled, LinkUp
  out.link_layer = IBV_LINK_LAYER_INFINIBAND;
  // Without the daemon, which has gone then, the rest of the port is still as it was.
  if (const auto managed = context.process->managed_port(context.hca, PortNumber{number})) {
    out.bad_pkey_cntr = managed->pkey_violations;
    out.qkey_viol_cntr = managed->qkey_violations;
    out.subnet_timeout = managed->subnet_timeout;
    out.init_type_reply = managed->init_type_reply;
  }
  return out;
}

/// The port attributes with the member that rdma-core 56 appended; the installed header may lack
/// it.
struct PortAnswer {
  ibv_port_attr known;
  std::uint32_t active_speed_ex{};  // also includes speeds beyond the eight bits of active_speed
};

int query_port(ibv_context* c, std::uint8_t number, ibv_port_attr* attributes,
               std::size_t size) noexcept {
  Context& context = context_of(c);
  if (!has_port(context, number)) {
    return refuse(EINVAL, fmt::format("port {} is not one of this HCA's", number));
  }
  PortAnswer out{.known = port_attributes(context, number)};
  out.active_speed_ex = out.known.active_speed;
  copy_clamped(attributes, size, &out, sizeof out);
  return 0;
}

}  // namespace

void set_port_operations(verbs_context& verbs) { verbs.query_port = query_port; }

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

/// The exported function is the original one, for headers with a shorter structure.
WEFT_EXPORT int ibv_query_port(ibv_context* c, std::uint8_t port,
                               _compat_ibv_port_attr* attributes) {
  constexpr std::size_t kOldSize = 48;
  void* const out = attributes;
  return query_port(c, port, static_cast<ibv_port_attr*>(out), kOldSize);
}

WEFT_EXPORT int ibv_query_gid(ibv_context* c, std::uint8_t port, int index, ibv_gid* gid) {
  Context& context = context_of(c);
  if (!has_port(context, port) || index < 0 || index >= kGidTableLength) {
    refuse(EINVAL, fmt::format("no GID {} at port {}", index, port));
    return -1;
  }
  const auto& gids = context.engine->port(PortNumber{port}).gids;
  const auto at = static_cast<std::size_t>(index);
  *gid = at < gids.size() ? from_engine(gids[at]) : ibv_gid{};
  return 0;
}

WEFT_EXPORT int _ibv_query_gid_ex(ibv_context* c, std::uint32_t port, std::uint32_t index,
                                  ibv_gid_entry* entry, std::uint32_t flags,
                                  std::size_t entry_size) {
  Context& context = context_of(c);
  if (flags != 0 || !has_port(context, port) || index >= kGidTableLength) {
    return refuse(EINVAL, fmt::format("no GID {} at port {}", index, port));
  }
  const auto gids = context.engine->port(PortNumber{static_cast<std::uint8_t>(port)}).gids;
  if (index >= gids.size()) {
    return refuse(ENODATA, fmt::format("GID {} of port {} is empty", index, port));
  }
  ibv_gid_entry out{};
  out.gid = from_engine(gids[index]);
  out.gid_index = index;
  out.port_num = port;
  out.gid_type = IBV_GID_TYPE_IB;
  copy_clamped(entry, entry_size, &out, sizeof out);
  return 0;
}

WEFT_EXPORT ssize_t _ibv_query_gid_table(ibv_context* c, ibv_gid_entry* entries, std::size_t most,
                                         std::uint32_t flags, std::size_t entry_size) {
  Context& context = context_of(c);
  if (flags != 0) {
    return -refuse(EINVAL, "unknown flags of query_gid_table");
  }
  std::size_t count = 0;
  auto* to = static_cast<char*>(static_cast<void*>(entries));
  for (unsigned port = 1; has_port(context, port); ++port) {
    const auto gids = context.engine->port(PortNumber{static_cast<std::uint8_t>(port)}).gids;
    for (std::uint32_t index = 0; index < gids.size() && index < kGidTableLength; ++index) {
      if (count == most) {
        return -refuse(EINVAL, fmt::format("the table holds more than the {} GIDs that there is "
                                           "room for",
                                           most));
      }
      void* const entry = to + count * entry_size;
      _ibv_query_gid_ex(c, port, index, static_cast<ibv_gid_entry*>(entry), 0, entry_size);
      ++count;
    }
  }
  return static_cast<ssize_t>(count);
}

/// The kernel's numbers: 0 is InfiniBand or RoCE v1.
WEFT_EXPORT int ibv_query_gid_type(ibv_context* c, std::uint8_t port, unsigned index,
                                   unsigned* type) {
  if (!has_port(context_of(c), port) || index >= kGidTableLength) {
    refuse(EINVAL, fmt::format("no GID {} at port {}", index, port));
    return -1;
  }
  *type = 0;
  return 0;
}

WEFT_EXPORT int ibv_query_pkey(ibv_context* c, std::uint8_t port, int index, __be16* pkey) {
  Context& context = context_of(c);
  const auto pkeys =
      has_port(context, port) ? context.engine->port(PortNumber{port}).pkeys : std::vector<PKey>{};
  if (index < 0 || static_cast<std::size_t>(index) >= pkeys.size()) {
    refuse(EINVAL, fmt::format("no P_Key {} at port {}", index, port));
    return -1;
  }
  *pkey = htobe16(pkeys[static_cast<std::size_t>(index)].value());
  return 0;
}

WEFT_EXPORT int ibv_get_pkey_index(ibv_context* c, std::uint8_t port, __be16 pkey) {
  Context& context = context_of(c);
  if (has_port(context, port)) {
    const auto pkeys = context.engine->port(PortNumber{port}).pkeys;
    for (std::size_t i = 0; i < pkeys.size(); ++i) {
      if (pkeys[i].value() == be16toh(pkey)) {
        return static_cast<int>(i);
      }
    }
  }
  refuse(EINVAL, "the port's table has no such P_Key");
  return -1;
}

WEFT_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*,
                                            std::uint16_t*) {
  refuse(EOPNOTSUPP, "an InfiniBand port has no Ethernet address");
  return -1;
}

}  // extern "C"
