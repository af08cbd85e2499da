#include "host/hca_set.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/process_slot.h"
#include "fabric/addresses.h"
#include "host/lane_memory.h"
#include "host/user_memory.h"

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

void HcaSet::open(const FabricMap& map, uabi::ProcessAddress self, const ProcessOptions& options,
                  TimeScale time_scale, const MakeEvents& make_events) {
  map.ask([&](const fabric::TablesView& view) {
    const fabric::NodeRecord& node = view.node(fabric::NodeIndex{self.node});
    const auto position = static_cast<std::uint32_t>(std::ranges::count(
        view.nodes().first(self.node), fabric::NodeKind::Host, &fabric::NodeRecord::kind));
    std::uint32_t port_of_host = 0;
    for (const fabric::HcaRecord& record : view.hcas_of(node)) {
      hca::HcaConfiguration configuration{
          .limits = options.limits,
          .lock_policy = LockPolicy::Spin,
          .loss_model = hca::LossModel::Reliable,
          .seed = secret(),
          .first_qpn = first_qpn_of(self.slot),
          .port_count = static_cast<std::uint8_t>(record.port_count),
          .max_train_bytes = kMaxTrainBytes,
          .time_scale = time_scale,
          .user_memory = &process_memory(),
          .placement = options.placement};
      events_.push_back(make_events(count()));
      engines_.push_back(std::make_unique<hca::Hca>(configuration, *events_.back()));
      descriptions_.push_back({.name = std::string{view.name(record)},
                               .node_guid = record.guid,
                               .system_image_guid = record.system_image_guid,
                               .port_count = static_cast<std::uint8_t>(record.port_count),
                               .addresses = {},
                               .engine = engines_.back().get()});
      for (std::uint32_t port = 0; port < record.port_count; ++port) {
        if (const auto address = fabric::ipv4_of(position, port_of_host++)) {
          descriptions_.back().addresses.push_back(*address);
        }
      }
    }
  });
}

}  // namespace weft::host
