// Devices and ports: their names and attributes.

#include "compat/ibumad/devices.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "compat/ibumad/abi.h"
#include "compat/ibumad/requests.h"

namespace weft::compat {
namespace {

constexpr unsigned kNodeTypeCa = 1;  // as in sysfs
constexpr unsigned kNodeTypeSwitch = 2;
constexpr std::uint8_t kActive = 4;    // PortInfo PortState
constexpr std::uint8_t kDisabled = 3;  // PortInfo PortPhysicalState
constexpr std::uint8_t kLinkUp = 5;

[[nodiscard]] std::vector<std::string> device_names() {
  auto answer = ask<uabi::UmadDevices>(
      uabi::ListUmadDevices{.version = uabi::kVersion, .node = node_of_environment()});
  if (!answer) {
    complain(answer.error().reason);
    return {};
  }
  return std::move(answer->names);
}

[[nodiscard]] Result<uabi::UmadDevice> describe(const std::string& name) {
  auto answer = ask<uabi::UmadDevice>(uabi::DescribeUmadDevice{
      .version = uabi::kVersion, .node = node_of_environment(), .device = name});
  if (!answer) {
    explain(answer.error().reason);
  }
  return answer;
}

/// 2 for an active port, 1 for one whose link is up, 0 for one that is not disabled; else nullopt.
[[nodiscard]] std::optional<int> rank(const uabi::UmadPort& port) {
  if (!port.is_infiniband || (port.state != kActive && port.physical_state == kDisabled)) {
    return std::nullopt;
  }
  return port.state == kActive ? 2 : port.physical_state == kLinkUp ? 1 : 0;
}

struct Choice {
  int rank{};
  int port{};
};

/// The best port of a device, or the rank of the requested one.
[[nodiscard]] std::optional<Choice> best_port(const uabi::UmadDevice& device, int wanted) {
  if (device.is_switch) {
    return Choice{.rank = 2, .port = 0};
  }
  std::optional<Choice> best;
  for (const uabi::UmadPort& port : device.ports) {
    const auto its_rank = rank(port);
    if (its_rank && (wanted == 0 || wanted == port.number) && (!best || *its_rank > best->rank)) {
      best = Choice{.rank = *its_rank, .port = port.number};
    }
  }
  return best;
}

template <std::size_t kSize>
void copy_text(char (&to)[kSize], std::string_view from) {
  const std::size_t size = std::min(from.size(), kSize - 1);
  std::memcpy(to, from.data(), size);
  std::memset(to + size, 0, kSize - size);
}

[[nodiscard]] bool fill(umad_port_t& out, const std::string& device, const uabi::UmadPort& port) {
  out = {};
  copy_text(out.ca_name, device);
  out.portnum = port.number;
  out.base_lid = port.lid.value();
  out.lmc = port.lmc;
  out.sm_lid = port.sm_lid.value();
  out.sm_sl = port.sm_sl.value();
  out.state = port.state;
  out.phys_state = port.physical_state;
  out.rate = port.gigabits;
  out.capmask = htobe32(port.capability_mask);
  out.gid_prefix = htobe64(port.gid.prefix());
  out.port_guid = htobe64(port.gid.interface_id().value());
  out.pkeys = static_cast<std::uint16_t*>(std::calloc(port.pkeys.size() + 1, sizeof *out.pkeys));
  if (out.pkeys == nullptr) {
    return false;
  }
  for (const PKey pkey : port.pkeys) {
    out.pkeys[out.pkeys_size++] = pkey.value();
  }
  copy_text(out.link_layer, port.is_infiniband ? "InfiniBand" : "Ethernet");
  return true;
}

/// The device that a name means; null means any.
[[nodiscard]] std::string named_device(const char* name) {
  if (name != nullptr) {
    return name;
  }
  const auto chosen = choose_port(nullptr, 0);
  return chosen ? chosen->device : std::string{};
}

void release(umad_port_t& port) {
  std::free(port.pkeys);
  port.pkeys = nullptr;
  port.pkeys_size = 0;
}

}  // namespace

Result<DevicePort> choose_port(const char* name, int port) {
  if (name != nullptr && port != 0) {
    return DevicePort{.device = name, .port = port};
  }
  std::optional<DevicePort> best;
  int best_rank = -1;
  for (const std::string& device :
       name != nullptr ? std::vector{std::string{name}} : device_names()) {
    const auto description = describe(device);
    const auto choice = description ? best_port(*description, port) : std::optional<Choice>{};
    if (choice && choice->rank > best_rank) {
      best = DevicePort{.device = device, .port = choice->port};
      best_rank = choice->rank;
    }
  }
  if (!best) {
    return fail(ErrorCode::NoSuchDevice, "{} has no usable port{}{}", node_of_environment(),
                name != nullptr ? " on " : "", name != nullptr ? name : "");
  }
  return *best;
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int umad_init() {
  const auto daemon = connect_to_daemon();
  if (!daemon) {
    complain(daemon.error().reason);
    errno = ENODEV;
    return -1;
  }
  return 0;
}

WEFT_EXPORT int umad_done() { return 0; }

WEFT_EXPORT int umad_get_cas_names(char names[][UMAD_CA_NAME_LEN], int most) {
  int count = 0;
  for (const std::string& name : device_names()) {
    if (count < most) {
      copy_text(names[count++], name);
    }
  }
  return count;
}

WEFT_EXPORT int umad_get_ca(const char* name, umad_ca_t* ca) {
  const std::string device = named_device(name);
  const auto description = describe(device);
  if (!description) {
    return -ENODEV;
  }
  *ca = {};
  copy_text(ca->ca_name, device);
  ca->node_type = description->is_switch ? kNodeTypeSwitch : kNodeTypeCa;
  copy_text(ca->fw_ver, "1.0.0");
  copy_text(ca->hw_ver, "1");
  copy_text(ca->ca_type, "Weft");
  ca->node_guid = htobe64(description->node_guid.value());
  ca->system_guid = htobe64(description->system_image_guid.value());
  for (const uabi::UmadPort& port : description->ports) {
    if (port.number >= UMAD_CA_MAX_PORTS) {
      continue;
    }
    auto* const out = static_cast<umad_port_t*>(std::calloc(1, sizeof(umad_port_t)));
    if (out == nullptr || !fill(*out, device, port)) {
      std::free(out);
      umad_release_ca(ca);
      return -ENOMEM;
    }
    ca->ports[port.number] = out;
    ca->numports = std::max(ca->numports, int{port.number});
  }
  return 0;
}

WEFT_EXPORT int umad_release_ca(umad_ca_t* ca) {
  if (ca == nullptr) {
    return -ENODEV;
  }
  for (umad_port_t*& port : ca->ports) {
    if (port != nullptr) {
      release(*port);
      std::free(port);
      port = nullptr;
    }
  }
  return 0;
}

WEFT_EXPORT int umad_get_port(const char* name, int number, umad_port_t* port) {
  const auto chosen = choose_port(name, number);
  if (!chosen) {
    return -ENODEV;
  }
  const auto description = describe(chosen->device);
  if (!description) {
    return -ENODEV;
  }
  const auto found = std::ranges::find(description->ports, chosen->port, &uabi::UmadPort::number);
  if (found == description->ports.end()) {
    return -EIO;
  }
  return fill(*port, chosen->device, *found) ? 0 : -ENOMEM;
}

WEFT_EXPORT int umad_release_port(umad_port_t* port) {
  if (port == nullptr) {
    return -ENODEV;
  }
  release(*port);
  return 0;
}

WEFT_EXPORT int umad_get_ca_portguids(const char* name, __be64* guids, int most) {
  const auto description = describe(named_device(name));
  if (!description) {
    return -ENODEV;
  }
  int last = 0;
  for (const uabi::UmadPort& port : description->ports) {
    last = std::max(last, int{port.number});
  }
  if (guids == nullptr) {
    return 0;
  }
  if (last + 1 > most) {
    return -ENOMEM;
  }
  std::fill_n(guids, last + 1, __be64{});
  for (const uabi::UmadPort& port : description->ports) {
    guids[port.number] = htobe64(port.gid.interface_id().value());
  }
  return last + 1;
}

WEFT_EXPORT int umad_get_issm_path(const char* name, int number, char path[], int most) {
  const auto chosen = choose_port(name, number);
  if (!chosen) {
    return -ENODEV;
  }
  const auto answer =
      ask<uabi::IsSm>(uabi::FindIsSm{.version = uabi::kVersion,
                                     .node = node_of_environment(),
                                     .device = chosen->device,
                                     .port = static_cast<std::uint8_t>(chosen->port)});
  if (!answer) {
    explain(answer.error().reason);
    return -EINVAL;
  }
  if (most <= 0 || answer->path.size() >= static_cast<std::size_t>(most)) {
    return -EINVAL;
  }
  std::memcpy(path, answer->path.c_str(), answer->path.size() + 1);
  return 0;
}

WEFT_EXPORT umad_device_node* umad_get_ca_device_list() {
  umad_device_node* head = nullptr;
  umad_device_node** end = &head;
  errno = 0;
  for (const std::string& name : device_names()) {
    // The name is stored behind its node.
    void* const memory = std::calloc(1, sizeof(umad_device_node) + name.size() + 1);
    if (memory == nullptr) {
      umad_free_ca_device_list(head);
      errno = ENOMEM;
      return nullptr;
    }
    auto* const node = static_cast<umad_device_node*>(memory);
    char* const text = static_cast<char*>(memory) + sizeof(umad_device_node);
    std::memcpy(text, name.c_str(), name.size() + 1);
    node->ca_name = text;
    *end = node;
    end = &node->next;
  }
  return head;
}

WEFT_EXPORT void umad_free_ca_device_list(umad_device_node* head) {
  while (head != nullptr) {
    umad_device_node* const next = head->next;
    std::free(head);
    head = next;
  }
}

WEFT_EXPORT int umad_sort_ca_device_list(umad_device_node** head, std::size_t size) {
  std::vector<umad_device_node*> nodes;
  for (umad_device_node* node = *head; node != nullptr; node = node->next) {
    nodes.push_back(node);
  }
  if (size != 0 && size != nodes.size()) {
    return EINVAL;
  }
  std::ranges::sort(
      nodes, [](const auto* a, const auto* b) { return std::strcmp(a->ca_name, b->ca_name) < 0; });
  umad_device_node** end = head;
  for (umad_device_node* const node : nodes) {
    *end = node;
    end = &node->next;
  }
  *end = nullptr;
  return 0;
}

}  // extern "C"
