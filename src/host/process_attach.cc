// How a process attaches to its daemon: what it is told and given first.

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/process_slot.h"
#include "fabric/addresses.h"
#include "host/process_impl.h"
#include "host/run_directory.h"
#include "host/user_memory.h"

namespace weft::host {
namespace {

/// Policy: the daemon answers within microseconds; this much only if the machine is in trouble.
constexpr Duration kDaemonPatience = Duration::seconds(10);

[[nodiscard]] std::uint64_t secret() {
  std::uint64_t value{};
  if (getrandom(&value, sizeof value, 0) != sizeof value) {
    value = static_cast<std::uint64_t>(getpid()) * 0x9E37'79B9'7F4A'7C15;
  }
  return value;
}

}  // namespace

/// What came with Welcome: tables, counter page, attention page, departure clocks, fault counters.
Result<void> Process::Impl::map_memory(const std::vector<UniqueFd>& descriptors) {
  auto tables = map_published(descriptors[0], kMaxTablesBytes);
  auto page = map_shared(descriptors[1], Protection::ReadWrite, fabric::CounterPage::bytes_needed(),
                         fabric::CounterPage::bytes_needed());
  auto attention_page =
      map_shared(descriptors[2], Protection::ReadWrite, kAttentionPageBytes, kAttentionPageBytes);
  auto clocks = map_shared(descriptors[3], Protection::ReadWrite,
                           fabric::DepartureClocks::bytes_needed(1), kMaxTablesBytes);
  constexpr std::size_t kFaultBytes = fabric::FaultCounters::bytes_needed();
  auto faults = map_shared(descriptors[4], Protection::ReadWrite, kFaultBytes, kFaultBytes);
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
          .carrier = hca::CarrierKind::Reliable,
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
  auto connected = ControlSocket::connect(control_path(options.run, options.fabric));
  if (!connected) {
    return std::unexpected(connected.error());
  }
  control = std::move(*connected);
  fabric = options.fabric;
  if (auto sent = control.send(uabi::Hello{.host = options.host}); !sent) {
    return std::unexpected(gone());
  }
  auto answer = control.receive(kDaemonPatience);
  if (!answer) {
    return std::unexpected(answer.error().code == ErrorCode::Refused ? gone() : answer.error());
  }
  if (const auto* refused = std::get_if<uabi::Refused>(&answer->message)) {
    return fail(ErrorCode::Refused, "{}", refused->reason);
  }
  const auto* welcome = std::get_if<uabi::Welcome>(&answer->message);
  if (welcome == nullptr || welcome->version != uabi::kVersion || welcome->self.slot == 0) {
    return fail(ErrorCode::Io, "the fabric daemon speaks another version: restart the fabric");
  }
  self = welcome->self;
  links.time_scale = welcome->time_scale;
  if (auto mapped = map_memory(answer->descriptors); !mapped) {
    return mapped;
  }
  control_wake = UniqueFd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  make_hcas(options.limits);
  refresh_ports(false);
  auto own_memory = PairMemory::reserve();
  if (!own_memory) {
    return std::unexpected(own_memory.error());
  }
  {
    const std::lock_guard guard{lanes_lock};
    nowhere = add_pair({fabric::kNoIndex, 0})->first;
    for_each_lane(pairs.at(nowhere->peer), [](Lane& lane) { lane.close_for_ever(); });
    Pair& own = *add_pair(self);
    own.memory = std::move(*own_memory);
    for_each_lane(own, [&](Lane& lane) { lane.open_to_self(*own.memory); });
  }
  return hear_briefing();
}

/// What is sent before is not lost for want of a group's members, nor hidden from a capture.
Result<void> Process::Impl::hear_briefing() {
  while (true) {
    auto received = control.receive(kDaemonPatience);
    if (!received) {
      return std::unexpected(received.error().code == ErrorCode::Refused ? gone()
                                                                         : received.error());
    }
    if (std::holds_alternative<uabi::Briefed>(received->message)) {
      return {};
    }
    handle(std::move(*received));
  }
}

}  // namespace weft::host
