#include "host_view/nldev.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "host_view/nldev_attributes.h"
#include "host_view/nldev_resources.h"
#include "host_view/rdma_netlink.h"

namespace weft::host_view {
namespace {

using wire::netlink::Attribute;
using wire::netlink::Header;
using wire::netlink::Message;
using A = NldevAttribute;

/// A request with its attributes, and where its answers go.
struct Call {
  const Message& request;
  const HostView& host;
  const Asker& asker;
  NldevCommand command;
  std::vector<Attribute> attributes;
  NldevWriter& out;

  [[nodiscard]] std::optional<std::uint32_t> number(A type) const {
    const Attribute* const found = find(attributes, std::to_underlying(type));
    return found == nullptr ? std::nullopt : found->number<std::uint32_t>();
  }
  /// The device that DEV_INDEX names; null without one.
  [[nodiscard]] const DeviceView* device() const {
    const auto index = number(A::DevIndex);
    const auto at = std::ranges::find_if(
        host.devices, [&](const DeviceView& device) { return device.index == index; });
    return at == host.devices.end() ? nullptr : &*at;
  }
  /// The port of a device that PORT_INDEX names; null without one.
  [[nodiscard]] const PortView* port_of(const DeviceView& device) const {
    const auto wanted = number(A::PortIndex);
    const auto at = std::ranges::find_if(
        device.ports, [&](const PortView& port) { return port.number == wanted; });
    return at == device.ports.end() ? nullptr : &*at;
  }
  void begin_one() const { out.begin(request.header, command, 0); }
  void begin_of_many() const { out.begin(request.header, command, wire::netlink::kFlagMulti); }
};

void put_device(NldevWriter& out, const DeviceView& device) {
  out.handle(device);
  out.u32(A::PortIndex, static_cast<std::uint32_t>(device.ports.size()));
  out.u64(A::CapFlags, device.capability_flags);
  if (!device.firmware_version.empty()) {
    out.text(A::FwVersion, device.firmware_version);
  }
  out.u64(A::NodeGuid, device.node_guid.value());
  out.u64(A::SysImageGuid, device.system_image_guid.value());
  out.u8(A::DevNodeType, 1);  // RDMA_NODE_IB_CA
  out.u8(A::DevDim, 0);
  out.text(A::DevProtocol, device.protocol);
}

int get_device(const Call& call) {
  const DeviceView* const device = call.device();
  if (device == nullptr) {
    return -EINVAL;
  }
  call.begin_one();
  put_device(call.out, *device);
  call.out.end();
  return 0;
}

int dump_devices(const Call& call) {
  for (const DeviceView& device : call.host.devices) {
    call.begin_of_many();
    put_device(call.out, device);
    call.out.end();
  }
  return 0;
}

void put_port(NldevWriter& out, const DeviceView& device, const PortView& port) {
  out.handle(device);
  out.u32(A::PortIndex, port.number);
  out.u64(A::CapFlags, port.capability_mask | static_cast<std::uint64_t>(port.capability_mask2)
                                                  << 32);
  out.u64(A::SubnetPrefix, port.subnet_prefix);
  out.u32(A::Lid, port.lid.value());
  out.u32(A::SmLid, port.sm_lid.value());
  out.u8(A::Lmc, port.lmc);
  out.u8(A::PortState, port.state);
  out.u8(A::PortPhysState, port.physical_state);
  if (port.interface_index != 0) {
    out.u32(A::NdevIndex, port.interface_index);
    out.text(A::NdevName, port.interface_name);
  }
}

int get_port(const Call& call) {
  const DeviceView* const device = call.device();
  const PortView* const port = device == nullptr ? nullptr : call.port_of(*device);
  if (port == nullptr) {
    return -EINVAL;
  }
  call.begin_one();
  put_port(call.out, *device, *port);
  call.out.end();
  return 0;
}

int dump_ports(const Call& call) {
  const DeviceView* const device = call.device();
  if (device == nullptr) {
    return -EINVAL;
  }
  for (const PortView& port : device->ports) {
    call.begin_of_many();
    put_port(call.out, *device, port);
    call.out.end();
  }
  return 0;
}

int get_summary(const Call& call) {
  const DeviceView* const device = call.device();
  if (device == nullptr) {
    return -EINVAL;
  }
  call.begin_one();
  put_summary(call.out, *device);
  call.out.end();
  return 0;
}

int dump_summaries(const Call& call) {
  for (const DeviceView& device : call.host.devices) {
    call.begin_of_many();
    put_summary(call.out, device);
    call.out.end();
  }
  return 0;
}

/// One object by the number that identifies its kind.
int get_resource(const Call& call) {
  const ResourceKind& kind = *resource_kind(call.command);
  const DeviceView* const device = call.device();
  const auto id = call.number(kind.id);
  if (device == nullptr || !id) {
    return -EINVAL;
  }
  if (call.number(A::PortIndex) && call.port_of(*device) == nullptr) {
    return -EINVAL;
  }
  const bool found =
      kind.for_each(*device, [&](const ProgramView& program, std::uint32_t number, std::size_t at) {
        if (number != *id) {
          return false;
        }
        call.begin_one();
        call.out.handle(*device);
        kind.put(call.out, program, at, call.asker);
        call.out.end();
        return true;
      });
  return found ? 0 : -ENOENT;
}

/// A dump's message ends when it is this long, and the next one begins; policy.
constexpr std::size_t kMessageBytes = 4096;

/// A dump names the device again in each of its messages.
int dump_resources(const Call& call) {
  const ResourceKind& kind = *resource_kind(call.command);
  const DeviceView* const device = call.device();
  const auto port = call.number(A::PortIndex);
  if (device == nullptr || (port && call.port_of(*device) == nullptr)) {
    return -EINVAL;
  }
  std::optional<std::size_t> table;
  const auto finish = [&] {
    if (table) {
      call.out.end_nested(*table);
      call.out.end();
      table.reset();
    }
  };
  kind.for_each(*device, [&](const ProgramView& program, std::uint32_t, std::size_t at) {
    if (port && kind.port_of(program, at) != *port) {
      return false;
    }
    if (table && call.out.size() >= kMessageBytes) {
      finish();
    }
    if (!table) {
      call.begin_of_many();
      call.out.handle(*device);
      table = call.out.begin_nested(kind.table);
    }
    const std::size_t entry = call.out.begin_nested(kind.entry);
    kind.put(call.out, program, at, call.asker);
    call.out.end_nested(entry);
    return false;
  });
  finish();
  return 0;
}

int get_system(const Call& call) {
  call.begin_one();
  call.out.u8(A::SysNetnsMode, 0);  // exclusive: a host sees its own devices only
  call.out.u8(A::SysCopyOnFork, 1);
  call.out.end();
  return 0;
}

int get_character_device(const Call& call) {
  const Attribute* const type = find(call.attributes, std::to_underlying(A::ChardevType));
  const auto name = type == nullptr ? std::nullopt : type->text();
  const auto device = call.number(A::DevIndex);
  const auto port = call.number(A::PortIndex);
  if (!name || (device && call.device() == nullptr) || (port && !device)) {
    return -EINVAL;
  }
  for (const CharacterDeviceView& file : call.host.character_devices) {
    if (file.type == *name && file.device == device && (!port || file.port == port)) {
      call.begin_one();
      call.out.u64(A::Chardev, file.number);
      call.out.u64(A::ChardevAbi, file.abi);
      call.out.text(A::ChardevName, file.name);
      call.out.end();
      return 0;
    }
  }
  return -ENOENT;
}

/// The counters of a port; of counters that are bound to QPs there are none.
int get_statistics(const Call& call) {
  if (call.number(A::StatRes)) {
    return -EINVAL;
  }
  const DeviceView* const device = call.device();
  const PortView* const port = device == nullptr ? nullptr : call.port_of(*device);
  if (port == nullptr) {
    return -EINVAL;
  }
  call.begin_one();
  call.out.handle(*device);
  call.out.u32(A::PortIndex, port->number);
  const std::size_t table = call.out.begin_nested(A::StatHwcounters);
  for (const auto& [name, value] : port->hardware_counters) {
    const std::size_t entry = call.out.begin_nested(A::StatHwcounterEntry);
    call.out.text(A::StatHwcounterEntryName, name);
    call.out.u64(A::StatHwcounterEntryValue, value);
    call.out.end_nested(entry);
  }
  call.out.end_nested(table);
  call.out.end();
  return 0;
}

int dump_statistics(const Call& call) { return call.number(A::StatRes) ? 0 : -EINVAL; }

/// What changes a device: its name, its networks, its counters' modes.
int refuse_change(const Call& call) { return call.device() == nullptr ? -EINVAL : -EOPNOTSUPP; }

/// Types of links that `rdma link add` makes: Linux says so of one that it does not know.
int refuse_link(const Call& /*call*/) { return -EINVAL; }

struct Operation {
  NldevCommand command;
  int (*get)(const Call&);
  int (*dump)(const Call&);  // null: asked for a dump, Linux answers as without
};

using C = NldevCommand;
constexpr auto kOperations = std::to_array<Operation>({
    {C::Get,        get_device,           dump_devices   },
    {C::Set,        refuse_change,        nullptr        },
    {C::NewLink,    refuse_link,          nullptr        },
    {C::DelLink,    refuse_link,          nullptr        },
    {C::PortGet,    get_port,             dump_ports     },
    {C::SysGet,     get_system,           nullptr        },
    {C::SysSet,     refuse_link,          nullptr        },
    {C::ResGet,     get_summary,          dump_summaries },
    {C::ResQpGet,   get_resource,         dump_resources },
    {C::ResCmIdGet, get_resource,         dump_resources },
    {C::ResCqGet,   get_resource,         dump_resources },
    {C::ResMrGet,   get_resource,         dump_resources },
    {C::ResPdGet,   get_resource,         dump_resources },
    {C::GetChardev, get_character_device, nullptr        },
    {C::StatSet,    refuse_change,        nullptr        },
    {C::StatGet,    get_statistics,       dump_statistics},
    {C::StatDel,    refuse_change,        nullptr        },
    {C::ResCtxGet,  get_resource,         dump_resources },
    {C::ResSrqGet,  get_resource,         dump_resources },
});

[[nodiscard]] const Operation* operation_for(std::uint16_t command) {
  const auto at =
      std::ranges::find(kOperations, static_cast<NldevCommand>(command), &Operation::command);
  return at == kOperations.end() ? nullptr : &*at;
}

}  // namespace

bool nldev_reads_resources(std::uint16_t command) {
  return static_cast<NldevCommand>(command) == NldevCommand::ResGet ||
         resource_kind(static_cast<NldevCommand>(command)) != nullptr;
}

bool nldev_reads_counters(std::uint16_t command) {
  return static_cast<NldevCommand>(command) == NldevCommand::StatGet;
}

bool nldev_has(std::uint16_t command) { return operation_for(command) != nullptr; }

int answer_nldev(const Message& request, std::uint16_t command, const HostView& host,
                 const Asker& asker, std::vector<std::byte>& answers) {
  const Operation* const operation = operation_for(command);
  if (operation == nullptr) {
    return -EINVAL;
  }
  NldevWriter out{answers};
  const Call call{.request = request,
                  .host = host,
                  .asker = asker,
                  .command = operation->command,
                  .attributes = wire::netlink::parse_attributes(request.payload),
                  .out = out};
  if (!request.header.wants_dump() || operation->dump == nullptr) {
    return operation->get(call);
  }
  const int error = operation->dump(call);
  if (error == 0) {
    wire::netlink::put_done(answers, request.header);
  }
  return error;
}

}  // namespace weft::host_view
