#pragma once

// For tests: a star of two hosts, with queries to performance management agents sent from h1.

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "agents/pma.h"
#include "agents/testing/managed_fabric.h"
#include "wire/mad/perf_mad.h"

namespace weft::agents::testing {

using wire::PerfAttribute;

class PerfClient : public ::testing::Test {
 protected:
  PerfClient() { fabric.manage_star(); }

  template <class T>
  struct Answer {
    std::uint16_t status{};
    T data{};
  };
  template <class T>
  Answer<T> ask(Lid lid, PerfAttribute attribute, const T& data, bool is_set = false,
                std::uint32_t modifier = 0) {
    wire::PerfMad mad{
        .header = {.mgmt_class = wire::ManagementClass::Perf,
                   .method = is_set ? wire::MadMethod::Set : wire::MadMethod::Get,
                   .attribute_id = static_cast<std::uint16_t>(attribute),
                   .attribute_modifier = modifier}
    };
    wire::pack(data, std::span{mad.data}.first<wire::kSizeOf<T>>());
    fabric.delivered.clear();
    fabric.network.send(fabric.port("h1", 1), mad::InterfaceKind::Gsi,
                        {.address = {.lid = lid}, .bytes = wire::pack(mad)});
    fabric.run();
    for (const auto& each : fabric.delivered) {
      if (each.header().method == wire::MadMethod::GetResp) {
        return {.status = each.status(), .data = each.data<T>()};
      }
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  fabric::PortCounters& counters(const char* node, int number) {
    return fabric.counters.ports[fabric.port(node, number).value()];
  }

  ManagedFabric fabric{star()};
};

}  // namespace weft::agents::testing
