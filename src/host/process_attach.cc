// How a process attaches to its daemon: what it is told and given first.

#include <memory>
#include <utility>

#include "host/process_impl.h"
#include "os/run_directory.h"

namespace weft::host {

/// Maps what came with Welcome: tables, counter page, attention page, departure clocks, fault
/// counters.
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
  counters.memory = std::move(*page);
  counters.page = fabric::CounterPage::format(counters.memory.bytes());
  clock_memory = std::move(*clocks);
  links.clocks = fabric::DepartureClocks::open(clock_memory.bytes());
  fault_memory = std::move(*faults);
  links.faults = fabric::FaultCounters::open(fault_memory.bytes());
  attention_memory = std::move(*attention_page);
  void* const start = attention_memory.bytes().data();
  progress.sleeper.attach(*static_cast<AttentionPage*>(start));
  return {};
}

Result<void> Process::Impl::attach(const ProcessOptions& with) {
  options = with;
  auto socket = ControlSocket::connect(os::control_path(options.run, options.fabric));
  if (!socket) {
    return std::unexpected(socket.error());
  }
  auto attached = daemon.attach(std::move(*socket), options.fabric, options.host);
  if (!attached) {
    return std::unexpected(attached.error());
  }
  const uabi::Welcome& welcome = attached->welcome;
  links.time_scale = welcome.time_scale;
  if (auto mapped = map_memory(attached->descriptors); !mapped) {
    return mapped;
  }
  hcas.open(map, welcome.self, options, links.time_scale, [this](std::uint32_t hca) {
    return std::make_unique<HcaEventRelay>(hca,
                                           HcaEventRelay::Parts{.program = program,
                                                                .daemon = daemon,
                                                                .key_violations = key_violations,
                                                                .held_events = held_events,
                                                                .map = map,
                                                                .placements = placements,
                                                                .shared_targets = shared_targets});
  });
  ports.open(welcome.self.node);
  auto own_memory = PairMemory::reserve();
  if (!own_memory) {
    return std::unexpected(own_memory.error());
  }
  placements.turn_on(options.placement != hca::PlacementPolicy::Never);
  placements.share_pages(options.shares_pages);
  if (placements.shares_pages()) {
    page_sharing.turn_on();
  }
  placements.on_mapped([this] { daemon.wake(); });
  lanes.open(welcome.self, std::move(*own_memory));
  return daemon.hear_initial_state();
}

}  // namespace weft::host
