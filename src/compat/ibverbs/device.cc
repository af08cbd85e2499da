// Devices: listing, opening, and what they say of themselves and their ports.

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/sysfs.h"

namespace weft::compat {

void add_context(Context& context);
void remove_context(Context& context);

namespace {

/// Our own vendor and part by default; others by environment, since perftest chooses its way of
/// posting by the part alone (DROPIN-ABI 2.15).
constexpr std::uint32_t kVendorId = 0x5746;
constexpr std::uint32_t kVendorPart = 1;
constexpr const char* kFirmware = "1.0.0";

/// Policy: as many entries as the tables of a port can come to hold.
constexpr int kGidTableLength = 8;

[[nodiscard]] std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0'
             ? otherwise
             : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 0));
}

std::mutex devices_lock;
std::vector<std::unique_ptr<Device>> devices;  // of this attachment and of earlier ones
std::vector<Device*> current;                  // by HCA
host::Process* listed_for = nullptr;

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
  const std::size_t size = std::min(from.size(), kSize - 1);
  std::memcpy(to, from.data(), size);
  to[size] = '\0';
}

std::vector<Device*> list_devices() {
  host::Process* const program = process();
  const std::lock_guard guard{devices_lock};
  if (program == nullptr) {
    return {};
  }
  if (program != listed_for) {
    current.clear();
    std::uint32_t number = 0;
    for (const host::HostHca& hca : program->hcas()) {
      auto device = std::make_unique<Device>();
      device->device.node_type = IBV_NODE_CA;
      device->device.transport_type = IBV_TRANSPORT_IB;
      copy_text(device->device.name, hca.name);
      copy_text(device->device.dev_name, fmt::format("uverbs{}", number));
      copy_text(device->device.dev_path,
                sysfs_path() + "/class/infiniband_verbs/" + device->device.dev_name);
      copy_text(device->device.ibdev_path, sysfs_path() + "/class/infiniband/" + hca.name);
      device->hca = number++;
      device->guid = hca.node_guid;
      device->driver_operations = &devices;  // nobody else's
      current.push_back(device.get());
      devices.push_back(std::move(device));
    }
    write_sysfs(program->hcas());
    listed_for = program;
  }
  return current;
}

/// Copies at most what the caller's header knows (DROPIN-ABI 2.3, 2.4).
void copy_clamped(void* to, std::size_t to_size, const void* from, std::size_t from_size) {
  std::memset(to, 0, to_size);
  std::memcpy(to, from, std::min(to_size, from_size));
}

[[nodiscard]] ibv_device_attr device_attributes(const Context& context) {
  const hca::DeviceLimits& limits = context.engine->configuration().limits;
  const host::HostHca& hca = context.process->hcas()[context.hca];
  ibv_device_attr out{};
  std::strcpy(out.fw_ver, kFirmware);
  out.node_guid = htobe64(hca.node_guid.value());
  out.sys_image_guid = htobe64(hca.system_image_guid.value());
  out.max_mr_size = limits.max_mr_size;
  out.page_size_cap = 0xFFFF'F000;
  out.vendor_id = number_from("WEFT_VENDOR_ID", kVendorId);
  out.vendor_part_id = number_from("WEFT_VENDOR_PART", kVendorPart);
  out.hw_ver = 1;
  out.max_qp = static_cast<int>(limits.max_qp);
  out.max_qp_wr = static_cast<int>(limits.max_qp_wr);
  out.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                         IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                         IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                         IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  out.max_sge = static_cast<int>(limits.max_sge);
  out.max_sge_rd = static_cast<int>(limits.max_sge);
  out.max_cq = static_cast<int>(limits.max_cq);
  out.max_cqe = static_cast<int>(limits.max_cqe);
  out.max_mr = static_cast<int>(limits.max_mr);
  out.max_pd = static_cast<int>(limits.max_pd);
  out.max_qp_rd_atom = static_cast<int>(limits.max_qp_rd_atomic);
  out.max_res_rd_atom = static_cast<int>(limits.max_qp_rd_atomic * limits.max_qp);
  out.max_qp_init_rd_atom = static_cast<int>(limits.max_qp_rd_atomic);
  out.atomic_cap = IBV_ATOMIC_GLOB;  // real atomic instructions: the CPU's own see them too
  out.max_mcast_grp = static_cast<int>(limits.max_mcast_groups);
  out.max_mcast_qp_attach = static_cast<int>(limits.max_mcast_qps_per_group);
  out.max_total_mcast_qp_attach = out.max_mcast_grp * out.max_mcast_qp_attach;
  out.max_ah = static_cast<int>(limits.max_ah);
  out.max_srq = static_cast<int>(limits.max_srq);
  out.max_srq_wr = static_cast<int>(limits.max_srq_wr);
  out.max_srq_sge = static_cast<int>(limits.max_srq_sge);
  out.max_pkeys = 128;
  out.local_ca_ack_delay = 15;
  out.phys_port_cnt = hca.port_count;
  return out;
}

int query_device_ex(ibv_context* c, const ibv_query_device_ex_input*,
                    ibv_device_attr_ex* attributes, std::size_t size) noexcept {
  ibv_device_attr_ex out{};
  out.orig_attr = device_attributes(context_of(c));
  out.device_cap_flags_ex = out.orig_attr.device_cap_flags;
  out.phys_port_cnt_ex = out.orig_attr.phys_port_cnt;
  out.pci_atomic_caps = {};
  copy_clamped(attributes, size, &out, sizeof out);
  return 0;
}

[[nodiscard]] bool has_port(const Context& context, unsigned port) {
  return port >= 1 && port <= context.process->hcas()[context.hca].port_count;
}

[[nodiscard]] ibv_port_attr port_attributes(const Context& context, std::uint8_t number) {
  const fabric::PortRecord port = context.process->port_record(context.hca, PortNumber{number});
  ibv_port_attr out{};
  out.state = static_cast<ibv_port_state>(port.state);  // PortInfo PortState both
  out.max_mtu = static_cast<ibv_mtu>(port.max_mtu);
  out.active_mtu = static_cast<ibv_mtu>(port.active_mtu);
  out.gid_tbl_len = kGidTableLength;
  out.port_cap_flags =
      IBV_PORT_SL_MAP_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CM_SUP | IBV_PORT_CLIENT_REG_SUP;
  out.max_msg_sz = context.engine->configuration().limits.max_message_bytes;
  out.pkey_tbl_len = port.pkey_count;
  out.lid = static_cast<std::uint16_t>(port.lid.value());
  out.sm_lid = static_cast<std::uint16_t>(context.engine->port(PortNumber{number}).sm_lid.value());
  out.lmc = port.lmc;
  out.max_vl_num = 4;  // encoding of VL0-VL7 (IBTA vol 1 §14.2.5.6)
  out.subnet_timeout = 18;
  out.active_width = port.active_width;
  out.active_speed = port.active_speed_extended != 0
                         ? static_cast<std::uint8_t>(port.active_speed_extended << 4)
                         : port.active_speed;
  out.phys_state = port.state == fabric::PortState::Down ? 3 : 5;  // Disabled, LinkUp
  out.link_layer = IBV_LINK_LAYER_INFINIBAND;
  return out;
}

int query_port(ibv_context* c, std::uint8_t number, ibv_port_attr* attributes,
               std::size_t size) noexcept {
  Context& context = context_of(c);
  if (!has_port(context, number)) {
    return refuse(EINVAL, fmt::format("port {} is not one of this HCA's", number));
  }
  const ibv_port_attr out = port_attributes(context, number);
  copy_clamped(attributes, size, &out, sizeof out);
  return 0;
}

}  // namespace

void set_device_operations(verbs_context& verbs) {
  verbs.query_port = query_port;
  verbs.query_device_ex = query_device_ex;
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT ibv_device** ibv_get_device_list(int* count) {
  const std::vector<Device*> found = list_devices();
  auto** const list = static_cast<ibv_device**>(std::calloc(found.size() + 1, sizeof(ibv_device*)));
  if (list == nullptr) {
    refuse(ENOMEM, "no memory for the list of devices");
    return nullptr;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    list[i] = &found[i]->device;
  }
  if (count != nullptr) {
    *count = static_cast<int>(found.size());
  }
  errno = 0;
  return list;
}

WEFT_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }

WEFT_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

WEFT_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  return htobe64(object_of<Device>(device).guid.value());
}

WEFT_EXPORT int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(object_of<Device>(device).hca);
}

WEFT_EXPORT ibv_context* ibv_open_device(ibv_device* d) {
  auto& device = object_of<Device>(d);
  host::Process* const program = process();
  if (program == nullptr || device.hca >= program->hcas().size()) {
    refuse(ENODEV, "the device is not there any more");
    return nullptr;
  }
  auto context = std::make_unique<Context>();
  if (context->async_events.fd() < 0) {
    refuse(EMFILE, "no file descriptor left for asynchronous events");
    return nullptr;
  }
  context->process = program;
  context->hca = device.hca;
  context->engine = program->hcas()[device.hca].engine;
  context->device = &device;
  verbs_context& verbs = context->verbs;
  verbs.sz = sizeof verbs;
  verbs.priv = static_cast<verbs_ex_private*>(static_cast<void*>(context.get()));
  verbs.context.device = d;
  verbs.context.cmd_fd = -1;
  verbs.context.async_fd = context->async_events.fd();
  verbs.context.num_comp_vectors = 1;
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&verbs.context.mutex, nullptr);
  set_device_operations(verbs);
  set_completion_operations(verbs);
  set_qp_operations(verbs);
  set_srq_operations(verbs);
  add_context(*context);
  return &context.release()->verbs.context;
}

WEFT_EXPORT int ibv_close_device(ibv_context* c) {
  Context& context = context_of(c);
  if (is_alive(context)) {
    remove_context(context);
  }
  delete &context;
  return 0;
}

WEFT_EXPORT int ibv_query_device(ibv_context* c, ibv_device_attr* attributes) {
  *attributes = device_attributes(context_of(c));
  return 0;
}

/// The exported function is the old one, for headers that knew less of a port (DROPIN-ABI 2.3).
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
    for (std::uint32_t index = 0; index < kGidTableLength && count < most; ++index) {
      const auto& gids = context.engine->port(PortNumber{static_cast<std::uint8_t>(port)}).gids;
      if (index < gids.size()) {
        void* const entry = to + count * entry_size;
        _ibv_query_gid_ex(c, port, index, static_cast<ibv_gid_entry*>(entry), 0, entry_size);
        ++count;
      }
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

WEFT_EXPORT ibv_context* ibv_import_device(int) {
  refuse(EOPNOTSUPP, "devices cannot be imported yet");
  return nullptr;
}
WEFT_EXPORT ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) {
  refuse(EOPNOTSUPP, "protection domains cannot be imported yet");
  return nullptr;
}
WEFT_EXPORT void ibv_unimport_pd(ibv_pd*) {}
WEFT_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) {
  refuse(EOPNOTSUPP, "memory regions cannot be imported yet");
  return nullptr;
}
WEFT_EXPORT void ibv_unimport_mr(ibv_mr*) {}
WEFT_EXPORT ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) {
  refuse(EOPNOTSUPP, "there is no device memory");
  return nullptr;
}
WEFT_EXPORT void ibv_unimport_dm(ibv_dm*) {}

WEFT_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*,
                                            std::uint16_t*) {
  refuse(EOPNOTSUPP, "an InfiniBand port has no Ethernet address");
  return -1;
}

}  // extern "C"
