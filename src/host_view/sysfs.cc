#include "host_view/sysfs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "host_view/function_files.h"

namespace weft::host_view {
namespace {

// ABI versions that the kernel announces and user space checks.
constexpr unsigned kVerbsAbi = 6;
constexpr unsigned kMadAbi = 5;
constexpr unsigned kCmAbi = 5;
constexpr unsigned kRdmaCmAbi = 4;

[[nodiscard]] std::string guid_text(Guid guid) {
  const std::uint64_t value = guid.value();
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", value >> 48, value >> 32 & 0xFFFF,
                     value >> 16 & 0xFFFF, value & 0xFFFF);
}

/// Eight groups of four digits, as %pI6.
[[nodiscard]] std::string gid_text(const Gid& gid) {
  std::string text;
  const auto& octets = gid.octets();
  for (std::size_t i = 0; i < octets.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", std::to_integer<unsigned>(octets[i]),
                        std::to_integer<unsigned>(octets[i + 1]));
  }
  return text;
}

/// major:minor of a dev_t in Linux's 64-bit form.
[[nodiscard]] std::string device_number_text(std::uint64_t number) {
  const std::uint64_t major = (number >> 8 & 0xFFF) | (number >> 32 & ~std::uint64_t{0xFFF});
  const std::uint64_t minor = (number & 0xFF) | (number >> 12 & ~std::uint64_t{0xFF});
  return fmt::format("{}:{}", major, minor);
}

/// Collects files below one folder.
class Folder {
 public:
  Folder(SysTree& tree, std::string path) : tree_(tree), path_(std::move(path)) {
    tree_.folders.push_back(path_);
  }
  void file(std::string_view name, std::string content,
            Freshness freshness = Freshness::WhenTablesChange) const {
    tree_.files.push_back({fmt::format("{}/{}", path_, name), content + '\n', freshness});
  }
  void link(std::string_view name, std::string target) const {
    tree_.links.push_back({fmt::format("{}/{}", path_, name), std::move(target)});
  }
  [[nodiscard]] Folder folder(std::string_view name) const {
    return {tree_, fmt::format("{}/{}", path_, name)};
  }

 private:
  SysTree& tree_;
  std::string path_;
};

void add_counters(const Folder& folder, const PortView::Counters& counters) {
  for (const auto& [name, value] : counters) {
    folder.file(name, fmt::format("{}", value), Freshness::WhenRead);
  }
}

void add_port(const Folder& folder, const PortView& port) {
  folder.file("state", port_state_text(port.state));
  folder.file("phys_state", physical_state_text(port.physical_state));
  folder.file("lid", fmt::format("{:#x}", port.lid.value()));
  folder.file("lid_mask_count", fmt::format("{}", port.lmc));
  folder.file("sm_lid", fmt::format("{:#x}", port.sm_lid.value()));
  folder.file("sm_sl", fmt::format("{}", port.sm_sl.value()));
  folder.file("cap_mask", fmt::format("{:#010x}", port.capability_mask));
  folder.file("rate", rate_text(port.active_width, port.active_speed));
  folder.file("link_layer", port.link_layer);
  const Folder gids = folder.folder("gids");
  const Folder attributes = folder.folder("gid_attrs");
  const Folder types = attributes.folder("types");
  const Folder interfaces = attributes.folder("ndevs");
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    const std::string index = fmt::format("{}", i);
    gids.file(index, gid_text(port.gids[i]));
    types.file(index, "IB/RoCE v1");
    if (!port.interface_name.empty()) {
      interfaces.file(index, port.interface_name);
    }
  }
  const Folder pkeys = folder.folder("pkeys");
  for (std::size_t i = 0; i < port.pkeys.size(); ++i) {
    pkeys.file(fmt::format("{}", i), fmt::format("{:#06x}", port.pkeys[i].value()));
  }
  add_counters(folder.folder("counters"), port.counters);
  add_counters(folder.folder("hw_counters"), port.hardware_counters);
}

void add_device(const Folder& folder, const DeviceView& device) {
  folder.file("node_type", "1: CA");
  folder.file("node_guid", guid_text(device.node_guid));
  folder.file("sys_image_guid", guid_text(device.system_image_guid));
  folder.file("node_desc", device.description);
  folder.file("fw_ver", device.firmware_version);
  folder.file("hw_rev", device.hardware_revision);
  folder.file("board_id", device.board_id);
  folder.file("hca_type", device.type);
  const Folder parent = folder.folder("device");
  parent.file("numa_node", "-1");
  parent.file("uevent", "DRIVER=weft");
  if (device.sriov) {
    for (const std::string_view name : function_file_names()) {
      parent.link(name, fmt::format("../../../weft/{}/{}", device.name, name));
    }
  }
  const Folder ports = folder.folder("ports");
  for (const PortView& port : device.ports) {
    add_port(ports.folder(fmt::format("{}", port.number)), port);
  }
}

[[nodiscard]] const DeviceView* device_of(const HostView& host, const CharacterDeviceView& file) {
  const auto at = std::ranges::find_if(
      host.devices, [&](const DeviceView& device) { return device.index == file.device; });
  return at == host.devices.end() ? nullptr : &*at;
}

void add_character_device(const Folder& classes, const HostView& host,
                          const CharacterDeviceView& device) {
  struct Row {
    std::string_view type;
    std::string_view folder;
  };
  static constexpr auto kFolders = std::to_array<Row>({
      {"uverbs",  "infiniband_verbs"},
      {"umad",    "infiniband_mad"  },
      {"issm",    "infiniband_mad"  },
      {"rdma_cm", "misc"            },
  });
  const auto row = std::ranges::find(kFolders, std::string_view{device.type}, &Row::type);
  if (row == kFolders.end()) {
    return;
  }
  const Folder folder = classes.folder(row->folder).folder(device.name);
  folder.file("dev", device_number_text(device.number));
  if (const DeviceView* const parent = device_of(host, device)) {
    folder.file("ibdev", parent->name);
  }
  if (device.port) {
    folder.file("port", fmt::format("{}", *device.port));
  }
  if (device.type == "uverbs") {
    folder.file("abi_version", fmt::format("{}", device.abi));
  } else if (device.type == "rdma_cm") {
    folder.file("abi_version", fmt::format("{}", kRdmaCmAbi));
  }
}

}  // namespace

std::string port_state_text(std::uint8_t state) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"});
  return fmt::format("{}: {}", state, state < kNames.size() ? kNames[state] : "UNKNOWN");
}

std::string physical_state_text(std::uint8_t state) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
       "LinkErrorRecovery", "Phy Test"});
  return fmt::format("{}: {}", state, state < kNames.size() ? kNames[state] : kNames[0]);
}

std::string rate_text(std::uint8_t active_width, std::uint32_t active_speed) {
  struct Speed {
    std::uint32_t code;
    std::string_view name;
    unsigned tenths;  // of Gb/s, one lane
  };
  static constexpr auto kSpeeds = std::to_array<Speed>({
      {1,   "SDR",   25  },
      {2,   "DDR",   50  },
      {4,   "QDR",   100 },
      {8,   "FDR10", 100 },
      {16,  "FDR",   140 },
      {32,  "EDR",   250 },
      {64,  "HDR",   500 },
      {128, "NDR",   1000},
  });
  struct Width {
    std::uint8_t code;
    unsigned lanes;
  };
  static constexpr auto kWidths = std::to_array<Width>({
      {1,  1 },
      {2,  4 },
      {4,  8 },
      {8,  12},
      {16, 2 }
  });
  const auto speed_at = std::ranges::find(kSpeeds, active_speed, &Speed::code);
  const auto width_at = std::ranges::find(kWidths, active_width, &Width::code);
  const Speed& speed = speed_at == kSpeeds.end() ? kSpeeds[0] : *speed_at;
  const unsigned lanes = width_at == kWidths.end() ? 1 : width_at->lanes;
  const unsigned tenths = speed.tenths * lanes;
  return fmt::format("{}{} Gb/sec ({}X {})", tenths / 10, tenths % 10 != 0 ? ".5" : "", lanes,
                     speed.name);
}

SysTree sys_tree(const HostView& host) {
  SysTree tree;
  const Folder classes{tree, "class"};
  const Folder infiniband = classes.folder("infiniband");
  for (const DeviceView& device : host.devices) {
    add_device(infiniband.folder(device.name), device);
  }
  classes.folder("infiniband_verbs").file("abi_version", fmt::format("{}", kVerbsAbi));
  classes.folder("infiniband_mad").file("abi_version", fmt::format("{}", kMadAbi));
  classes.folder("infiniband_cm").file("abi_version", fmt::format("{}", kCmAbi));
  static_cast<void>(classes.folder("misc"));
  static_cast<void>(classes.folder("scsi_host"));
  for (const CharacterDeviceView& device : host.character_devices) {
    add_character_device(classes, host, device);
  }
  std::ranges::sort(tree.folders);
  tree.folders.erase(std::ranges::unique(tree.folders).begin(), tree.folders.end());
  std::ranges::sort(tree.files, {}, &SysFile::path);
  return tree;
}

}  // namespace weft::host_view
