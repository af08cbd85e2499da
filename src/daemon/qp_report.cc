#include "daemon/qp_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/placement/peer_placement.h"
#include "verbs/qp_state.h"
#include "verbs/qp_type.h"

namespace weft::daemon {
namespace {

using nlohmann::json;

/// Numbers of a program are not trusted.
[[nodiscard]] bool is_known(const uabi::HeldQp& qp) {
  constexpr std::array kTypes{verbs::QpType::Rc, verbs::QpType::Uc, verbs::QpType::Ud,
                              verbs::QpType::XrcInitiator, verbs::QpType::XrcTarget};
  return std::ranges::find(kTypes, static_cast<verbs::QpType>(qp.type)) != kTypes.end() &&
         qp.state <= std::to_underlying(verbs::QpState::Err) &&
         qp.placement <= std::to_underlying(host::kLastPlacementWay);
}

[[nodiscard]] json qp_json(const uabi::HeldQp& qp) {
  const auto type = static_cast<verbs::QpType>(qp.type);
  json entry{
      {"number", qp.number.value()                                    },
      {"type",   verbs::name_of(type)                                 },
      {"state",  verbs::name_of(static_cast<verbs::QpState>(qp.state))},
      {"port",   qp.port                                              }
  };
  if (type != verbs::QpType::Ud) {
    entry["destination"] = qp.dest.value();
  }
  if (type == verbs::QpType::Rc) {
    const auto way = static_cast<host::PlacementWay>(qp.placement);
    entry["way"] = host::name_of(way);
    entry["why"] = host::reason_of(way);
  }
  return entry;
}

}  // namespace

std::string qps_json(const fabric::TablesView& view, const std::vector<ProgramObjects>& programs) {
  json list = json::array();
  for (const ProgramObjects& each : programs) {
    for (const uabi::ObjectsHeld& part : each.held) {
      for (const uabi::HeldQp& qp : part.qps) {
        if (!is_known(qp)) {
          continue;
        }
        json entry = qp_json(qp);
        entry["host"] = view.name(view.node(each.program.process.host));
        entry["pid"] = each.program.pid;
        entry["name"] = each.program.program;
        list.push_back(std::move(entry));
      }
    }
  }
  // replaces invalid UTF-8 in untrusted names
  return list.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace weft::daemon
