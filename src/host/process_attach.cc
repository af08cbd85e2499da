// How a process attaches to its daemon: what it is told and given first.

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/process_slot.h"
#include "fabric/addresses.h"
#include "host/process_impl.h"
#include "host/user_memory.h"
#include "os/run_directory.h"

namespace weft::host {
namespace {

[[nodiscard]] std::uint64_t secret() {
  std::uint64_t value{};
  if (getrandom(&value, sizeof value, 0) != sizeof value) {
    value = static_cast<std::uint64_t>(getpid()) * 0x9E37'79B9'7F4A'7C15;
  }
  return value;
}

}  // namespace

/// What came with Welcome: tables, counter page, attention page, departure clocks, fault counters.
Result<void> Process::Impl::map_memory(const std::vector<os::UniqueFd>& descriptors) {
  auto tables = os::map_published(descriptors[0], kMaxTablesBytes);
  auto page =
      os::map_shared(descriptors[1], os::Protection::ReadWrite, fabric::CounterPage::bytes_needed(),
                     fabric::CounterPage::bytes_needed());
  auto attention_page = os::map_shared(descriptors[2], os::Protection::ReadWrite,
                                       kAttentionPageBytes, kAttentionPageBytes);
  auto clocks = os::map_shared(descriptors[3], os::Protection::ReadWrite,
                               fabric::DepartureClocks::bytes_needed(1), kMaxTablesBytes);
  constexpr std::size_t kFaultBytes = fabric::FaultCounters::bytes_needed();
  auto faults = os::map_shared(descriptors[4], os::Protection::ReadWrite, kFaultBytes, kFaultBytes);
  for (const auto* mapping : {&tables, &page, &attention_page, &clocks, &faults}) {
    if (!*mapping) {
      return std::unexpected(mapping->error());
    }
  }
  if (auto replaced = map.replace(std::move(*tables)); !replaced) {
    return replaced;
  }
  counter_memory = std::move(*page);
  counters = fabric::CounterPage::format(counter_memory.bytes());
  clock_memory = std::move(*clocks);
  links.clocks = fabric::DepartureClocks::open(clock_memory.bytes());
  fault_memory = std::move(*faults);
  links.faults = fabric::FaultCounters::open(fault_memory.bytes());
  attention_memory = std::move(*attention_page);
  void* const start = attention_memory.bytes().data();
  progress.sleeper.attach(*static_cast<AttentionPage*>(start));
  return {};
}

void Process::Impl::make_hcas(const hca::DeviceLimits& limits) {
  map.ask([&](const fabric::TablesView& view) {
    const fabric::NodeRecord& node = view.node(fabric::NodeIndex{self.node});
    const auto position = static_cast<std::uint32_t>(std::ranges::count(
        view.nodes().first(self.node), fabric::NodeKind::Host, &fabric::NodeRecord::kind));
    std::uint32_t port_of_host = 0;
    for (const fabric::HcaRecord& record : view.hcas_of(node)) {
      const auto number = static_cast<std::uint32_t>(slots.size());
      auto slot = std::make_unique<HcaSlot>(number, *this);
      hca::HcaConfiguration configuration{
          .limits = limits,
          .lock_policy = LockPolicy::Spin,
          .loss_model = hca::LossModel::Reliable,
          .seed = secret(),
          .first_qpn = first_qpn_of(self.slot),
          .port_count = static_cast<std::uint8_t>(record.port_count),
          .max_train_bytes = kMaxTrainBytes,
          .time_scale = links.time_scale,
          .user_memory = &process_memory()};
      slot->engine = std::make_unique<hca::Hca>(configuration, slot->events);
      slot->ports.resize(record.port_count);
      hcas.push_back({.name = std::string{view.name(record)},
                      .node_guid = record.guid,
                      .system_image_guid = record.system_image_guid,
                      .port_count = static_cast<std::uint8_t>(record.port_count),
                      .addresses = {},
                      .engine = slot->engine.get()});
      for (std::uint32_t port = 0; port < record.port_count; ++port) {
        if (const auto address = fabric::ipv4_of(position, port_of_host++)) {
          hcas.back().addresses.push_back(*address);
        }
      }
      slots.push_back(std::move(slot));
    }
  });
}

Result<void> Process::Impl::attach(const ProcessOptions& options) {
  auto socket = ControlSocket::connect(os::control_path(options.run, options.fabric));
  if (!socket) {
    return std::unexpected(socket.error());
  }
  auto attached = connection.attach(std::move(*socket), options.fabric, options.host);
  if (!attached) {
    return std::unexpected(attached.error());
  }
  self = attached->welcome.self;
  links.time_scale = attached->welcome.time_scale;
  if (auto mapped = map_memory(attached->descriptors); !mapped) {
    return mapped;
  }
  make_hcas(options.limits);
  refresh_ports(false);
  auto own_memory = PairMemory::reserve();
  if (!own_memory) {
    return std::unexpected(own_memory.error());
  }
  lanes.open(self, std::move(*own_memory));
  return connection.hear_initial_state();
}

}  // namespace weft::host
