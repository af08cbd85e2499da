// Devices: listing, opening, and their attributes.

#include <dlfcn.h>
#include <endian.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "compat/ibverbs/device_nodes.h"
#include "compat/ibverbs/interfaces.h"
#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/sysfs.h"
#include "hca/device_capabilities.h"

namespace weft::compat {

void add_context(Context& context);
void remove_context(Context& context);

namespace {

static_assert(hca::kDeviceCapabilities ==
                  (IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CURR_QP_STATE_MOD |
                   IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                   IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
                   IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
                   IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC),
              "the numbers are those of verbs");

/// Our own vendor and part by default. The environment can set others, since perftest chooses its
/// method of posting by the part alone.
constexpr std::uint32_t kVendorId = 0x5746;
constexpr std::uint32_t kVendorPart = 1;
constexpr const char* kFirmware = "1.0.0";

[[nodiscard]] std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0'
             ? otherwise
             : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 0));
}

std::mutex devices_lock;
std::vector<std::unique_ptr<Device>> devices;  // of this attachment and of earlier ones
std::vector<Device*> current;                  // by HCA
std::uint64_t listed_for = 0;                  // number of the attachment

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
  const std::size_t size = std::min(from.size(), kSize - 1);
  std::memcpy(to, from.data(), size);
  to[size] = '\0';
}

std::vector<Device*> list_devices() {
  const auto attachment = hold_attachment();
  host::Process* const program = renew_attachment() ? process() : nullptr;
  const std::lock_guard guard{devices_lock};
  if (program == nullptr) {
    return {};
  }
  if (attachment_number() != listed_for) {
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
      device->driver_operations = &devices;  // an address that no driver has
      current.push_back(device.get());
      devices.push_back(std::move(device));
    }
    write_sysfs(program->hcas());
    listed_for = attachment_number();
  }
  return current;
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
  out.device_cap_flags = static_cast<unsigned>(hca::kDeviceCapabilities);
  out.max_sge = static_cast<int>(limits.max_sge);
  out.max_sge_rd = static_cast<int>(limits.max_sge);
  out.max_cq = static_cast<int>(limits.max_cq);
  out.max_cqe = static_cast<int>(limits.max_cqe);
  out.max_mr = static_cast<int>(limits.max_mr);
  out.max_mw = static_cast<int>(limits.max_mw);
  out.max_pd = static_cast<int>(limits.max_pd);
  out.max_qp_rd_atom = static_cast<int>(limits.max_qp_rd_atomic);
  out.max_res_rd_atom = static_cast<int>(limits.max_qp_rd_atomic * limits.max_qp);
  out.max_qp_init_rd_atom = static_cast<int>(limits.max_qp_rd_atomic);
  // IBV_ATOMIC_GLOB would be correct as well, but UCX 1.13 takes it for no support at all.
  // pci_atomic_caps reports that atomics are coherent with the CPU's own, as adapters do.
  out.atomic_cap = IBV_ATOMIC_HCA;
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

// From newer headers: IBV_ODP_SUPPORT_FLUSH, IBV_ODP_SUPPORT_ATOMIC_WRITE.
constexpr std::uint32_t kOdpFlush = 1U << 6;
constexpr std::uint32_t kOdpAtomicWrite = 1U << 7;

/// Every access uses the same table of regions, so each may find a region that is paged on demand.
[[nodiscard]] ibv_odp_caps odp_capabilities() {
  constexpr std::uint32_t kMessages =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  ibv_odp_caps out{};
  out.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  out.per_transport_caps.rc_odp_caps = kMessages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                       IBV_ODP_SUPPORT_ATOMIC | kOdpFlush | kOdpAtomicWrite;
  out.per_transport_caps.uc_odp_caps = kMessages | IBV_ODP_SUPPORT_WRITE;
  out.per_transport_caps.ud_odp_caps = kMessages;
  return out;
}

int query_device_ex(ibv_context* c, const ibv_query_device_ex_input*,
                    ibv_device_attr_ex* attributes, std::size_t size) noexcept {
  ibv_device_attr_ex out{};
  out.orig_attr = device_attributes(context_of(c));
  out.device_cap_flags_ex = hca::kDeviceCapabilities | hca::kDeviceExtendedCapabilities;
  out.odp_caps = odp_capabilities();
  // The same engine, except that only RC QPs offer ATOMIC WRITE.
  out.xrc_odp_caps = out.odp_caps.per_transport_caps.rc_odp_caps & ~kOdpAtomicWrite;
  out.max_dm_size = kMaxDeviceMemory;
  out.max_wq_type_rq = context_of(c).engine->configuration().limits.max_wq;
  out.rss_caps = {
      .supported_qpts = 1U << IBV_QPT_UD,
      .max_rwq_indirection_tables =
          context_of(c).engine->configuration().limits.max_indirection_tables,
      .max_rwq_indirection_table_size = hca::IndirectionTable::kMaxEntries,
      .rx_hash_fields_mask = verbs::kAllHashFields.bits(),
      .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
  };
  out.completion_timestamp_mask = ~std::uint64_t{0};
  out.hca_core_clock = 1'000'000;  // kHz: time stamps are in nanoseconds
  out.phys_port_cnt_ex = out.orig_attr.phys_port_cnt;
  out.pci_atomic_caps.fetch_add = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
  out.pci_atomic_caps.compare_swap = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
  out.cq_mod_caps = {.max_cq_count = 0xFFFF,
                     .max_cq_period = 0xFFFF};  // the most that the verb can express
  copy_clamped(attributes, size, &out, sizeof out);
  return 0;
}

}  // namespace

bool is_device_node(const char* name) {
  const std::lock_guard guard{devices_lock};
  return std::ranges::any_of(current, [name](const Device* device) {
    return std::strcmp(device->device.dev_name, name) == 0;
  });
}

ibv_context* new_context(Device& device, os::UniqueFd command, std::shared_ptr<Handles> handles) {
  const auto attachment = hold_attachment();
  host::Process* const program = process();
  if (program == nullptr || device.hca >= program->hcas().size() ||
      device.guid != program->hcas()[device.hca].node_guid) {
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
  context->command = std::move(command);
  context->handles = std::move(handles);
  verbs_context& verbs = context->verbs;
  verbs.sz = sizeof verbs;
  verbs.priv = static_cast<verbs_ex_private*>(static_cast<void*>(context.get()));
  verbs.context.device = &device.device;
  verbs.context.cmd_fd = context->command.get();
  verbs.context.async_fd = context->async_events.fd();
  verbs.context.num_comp_vectors = 1;
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&verbs.context.mutex, nullptr);
  set_device_operations(verbs);
  set_port_operations(verbs);
  set_refused_operations(verbs);
  set_wq_operations(verbs);
  set_xrc_operations(verbs);
  set_domain_operations(verbs);
  set_memory_operations(verbs);
  set_memory_window_operations(verbs);
  set_device_memory_operations(verbs);
  set_completion_operations(verbs);
  set_extended_completion_operations(verbs);
  set_qp_operations(verbs);
  set_srq_operations(verbs);
  add_context(*context);
  program->start_daemon_events();
  return &context.release()->verbs.context;
}

Device* device_of(std::uint32_t hca) {
  const std::vector<Device*> found = list_devices();
  return hca < found.size() ? found[hca] : nullptr;
}

void set_device_operations(verbs_context& verbs) { verbs.query_device_ex = query_device_ex; }

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
  answer_for_device_nodes(__builtin_return_address(0));
  answer_for_interfaces(__builtin_return_address(0));
  errno = 0;
  return list;
}

WEFT_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }

WEFT_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

WEFT_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  return htobe64(object_of<Device>(device).guid.value());
}

/// An index names the device in RDMA netlink: a program that is told one asks there. So it is told
/// only where our devices answer, in programs that have loaded libweft-netlink.so.
WEFT_EXPORT int ibv_get_device_index(ibv_device* d) {
  using IsServed = int();
  auto* const is_served =
      reinterpret_cast<IsServed*>(dlsym(RTLD_DEFAULT, "weft_netlink_is_served"));
  return is_served != nullptr && is_served() != 0 ? static_cast<int>(object_of<Device>(d).hca) : -1;
}

/// For Weft's own programs, beside libibverbs: whether a capture is open that may see what the
/// program sends from now on.
WEFT_EXPORT int weft_has_captures(ibv_context* context) {
  return context_of(context).process->has_captures() ? 1 : 0;
}

WEFT_EXPORT ibv_context* ibv_open_device(ibv_device* d) {
  os::UniqueFd command{memfd_create("weft-device", MFD_CLOEXEC)};
  if (!command) {
    refuse(EMFILE, "no file descriptor left for the device");
    return nullptr;
  }
  Device& device = object_of<Device>(d);
  const int descriptor = command.get();
  ibv_context* const made = new_context(device, std::move(command), std::make_shared<Handles>());
  if (made != nullptr) {
    context_of(made).process->share_device(device.hca, descriptor);
  }
  return made;
}

WEFT_EXPORT int ibv_close_device(ibv_context* c) {
  Context& context = context_of(c);
  if (is_alive(context)) {
    remove_context(context);
    // The last context of a device that this program has opened; other processes imported it from
    // there.
    if (context.handles->foreign == nullptr && context.handles.use_count() == 1) {
      context.process->unshare_device(context.hca, context.command.get());
    }
  }
  delete &context;
  return 0;
}

WEFT_EXPORT int ibv_query_device(ibv_context* c, ibv_device_attr* attributes) {
  *attributes = device_attributes(context_of(c));
  return 0;
}

}  // extern "C"
