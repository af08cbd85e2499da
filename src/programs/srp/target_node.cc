#include "programs/srp/target_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "programs/srp/loop_device.h"
#include "scsi/ram_device.h"

namespace weft::programs::srp {
namespace {

constexpr std::uint8_t kProtocolSrp = 4;               // SPC-4 Table 443
constexpr std::uint64_t kNaa = 0x3B00'0000'0000'0000;  // locally assigned (SPC-4 §7.8.6.5.4)

// A number that a target and a LUN give again at each start, so that initiators know the disk
// again.
[[nodiscard]] std::uint64_t naa_of(const wire::SrpPortId& id, std::uint16_t lun) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;  // FNV-1a
  for (const std::byte octet : id) {
    hash = (hash ^ std::to_integer<std::uint64_t>(octet)) * 0x100'0000'01B3;
  }
  return kNaa | ((hash ^ lun * 0x9E37'79B9ULL) & 0x00FF'FFFF'FFFF'FFFF);
}

[[nodiscard]] Result<std::unique_ptr<scsi::BlockDevice>> open_device(
    iscsi::WorkerPool& workers, const iscsi::UnitConfiguration& unit) {
  if (unit.path.empty()) {
    auto ram =
        scsi::RamDevice::create({.bytes = unit.ram_bytes,
                                 .block_bytes = unit.block_bytes,
                                 .read_only = unit.read_only,
                                 .keeps_protection = unit.protection != scsi::ProtectionType::None,
                                 .locks = LockPolicy::None});
    if (!ram) {
      return std::unexpected(ram.error());
    }
    return *std::move(ram);
  }
  auto file = iscsi::FileDevice::open(
      {.path = unit.path, .block_bytes = unit.block_bytes, .read_only = unit.read_only}, workers);
  if (!file) {
    return std::unexpected(file.error());
  }
  return *std::move(file);
}

}  // namespace

Result<std::unique_ptr<TargetNode>> TargetNode::create(asio::io_context& loop,
                                                       iscsi::WorkerPool& workers,
                                                       const iscsi::TargetConfiguration& target) {
  auto names = names_of(target, Guid{});
  if (!names) {
    return std::unexpected(names.error());
  }
  std::unique_ptr<TargetNode> node{new TargetNode};
  node->configuration_ = target;
  node->names_ = *std::move(names);
  for (const iscsi::UnitConfiguration& unit : target.units) {
    auto device = open_device(workers, unit);
    if (!device) {
      return std::unexpected(device.error());
    }
    node->devices_.push_back(std::make_unique<LoopDevice>(loop, *std::move(device)));
  }
  return node;
}

Result<void> TargetNode::come_to(Guid ioc_guid) {
  const auto names = names_of(configuration_, ioc_guid);
  if (!names) {
    return std::unexpected(names.error());
  }
  if (auto added = add_units(names->port_id); !added) {
    return added;
  }
  if (std::ranges::find(ports_, ioc_guid) == ports_.end()) {
    if (auto added = add_port(ioc_guid); !added) {
      return added;
    }
  }
  return target_.set_enabled(port_of(ioc_guid), true);
}

std::string TargetNode::port_of(Guid ioc_guid) { return fmt::format("{:016x}", ioc_guid.value()); }

wire::SrpPortId TargetNode::port_id(Guid ioc_guid) const {
  const auto names = names_of(configuration_, ioc_guid);
  return names ? names->port_id : names_.port_id;  // create() has asked for them
}

// Their names come from the first device, so that initiators know them again at another one.
Result<void> TargetNode::add_units(const wire::SrpPortId& named_after) {
  for (; units_ < devices_.size(); ++units_) {
    if (auto added = add_unit(named_after, configuration_.units[units_], *devices_[units_]);
        !added) {
      return added;
    }
  }
  return {};
}

Result<void> TargetNode::add_unit(const wire::SrpPortId& named_after,
                                  const iscsi::UnitConfiguration& unit, scsi::BlockDevice& device) {
  scsi::UnitOptions options{
      .lun = scsi::Lun{unit.lun},
      .product = unit.path.empty() ? "MEMORY DISK" : "FILE DISK",
      .naa = naa_of(named_after, unit.lun),
      .protection = unit.protection,
      .max_transfer_bytes = static_cast<std::uint32_t>(options_.max_rdma_size)};
  if (unit.protection != scsi::ProtectionType::None) {  // which goes with the data
    options.max_transfer_bytes -= options.max_transfer_bytes / unit.block_bytes * 8;
  }
  options.serial = fmt::format("{:016x}", options.naa);
  auto added = scsi_.add_unit(options, device);
  return added ? Result<void>{} : std::unexpected(added.error());
}

// One for each device: an SRP target port is named after its I/O controller, which is the device.
Result<void> TargetNode::add_port(Guid ioc_guid) {
  weft::srp::PortOptions options = options_;
  options.name = port_of(ioc_guid);
  options.target_port = port_id(ioc_guid);
  options.scsi_port = scsi::PortId{static_cast<std::uint16_t>(ports_.size() + 1)};
  const scsi::PortOptions port{
      .id = options.scsi_port,
      .protocol = kProtocolSrp,
      .designator = {options.target_port.begin(), options.target_port.end()}
  };
  if (auto added = scsi_.add_port(port); !added) {
    return added;
  }
  ports_.push_back(ioc_guid);
  if (auto added = target_.add_port(options); !added) {
    return added;
  }
  std::ignore = target_.allow_anybody(options.name, names_.allowed.empty());
  for (const weft::srp::AccessName& name : names_.allowed) {
    std::ignore = target_.allow(options.name, name);  // twice on the list: as good as once
  }
  return {};
}

TargetStatus TargetNode::status() const {
  TargetStatus status{.ports = {},
                      .units = {},
                      .channels = target_.channel_status(),
                      .counters = target_.counters()};
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const iscsi::UnitConfiguration& unit = configuration_.units[i];
    const scsi::BlockGeometry geometry = devices_[i]->geometry();
    status.units.push_back({.lun = unit.lun,
                            .disk = unit.path.empty() ? "ram" : unit.path,
                            .bytes = geometry.blocks * geometry.block_bytes,
                            .block_bytes = geometry.block_bytes,
                            .read_only = unit.read_only});
  }
  return status;
}

Result<void> TargetNode::change(const iscsi::TargetConfiguration& target) {
  auto names = names_of(target, Guid{});
  if (!names) {
    return std::unexpected(names.error());
  }
  const std::vector<weft::srp::AccessName> before = std::exchange(names_.allowed, names->allowed);
  for (const Guid guid : ports_) {
    change(port_of(guid), before);
  }
  configuration_ = target;
  return {};
}

void TargetNode::change(const std::string& port, const std::vector<weft::srp::AccessName>& before) {
  const std::vector<weft::srp::AccessName>& allowed = names_.allowed;
  for (const weft::srp::AccessName& name : allowed) {
    std::ignore = target_.allow(port, name);  // it may be there already
  }
  std::ignore = target_.allow_anybody(port, allowed.empty());
  for (const weft::srp::AccessName& name : before) {
    if (std::ranges::find(allowed, name) == allowed.end()) {
      std::ignore = target_.withdraw(port, name, [] {});
    }
  }
  if (before.empty() && !allowed.empty()) {
    target_.end_strangers(port, [] {});
  }
}

void TargetNode::leave(Guid ioc_guid, std::function<void()> done) {
  if (std::ranges::find(ports_, ioc_guid) == ports_.end()) {
    done();
  } else {
    std::ignore = target_.release_port(port_of(ioc_guid), std::move(done));
  }
}

void TargetNode::leave_all() {
  for (const Guid guid : ports_) {
    leave(guid, [] {});
  }
}

}  // namespace weft::programs::srp
