#pragma once

// For tests: one of each message of omni_path_messages.h, in the order of Message.

#include <cstddef>
#include <vector>

#include "uabi/messages.h"

namespace weft::uabi::testing {

inline void add_omni_path(std::vector<Message>& messages) {
  messages.emplace_back(AskOmniPathPorts{kVersion, "h1"});
  messages.emplace_back(AttachOmniPath{
      kVersion, "h1", 1, 2, true, false, true, {1U << 2, 1U << 1}
  });
  messages.emplace_back(JoinOmniPathGroup{Lid{0xF0'0064}});
  messages.emplace_back(LeaveOmniPathGroup{Lid{0xF0'0064}});
  messages.emplace_back(SetOmniPathCapabilities{kOmniPathEthernetOnFabric});
  messages.emplace_back(
      OmniPathPorts{true, {{"h1", 1, 2, Lid{0x01'0001}, true, kOmniPathEthernetOnFabric, 3}}});
  messages.emplace_back(OmniPathAttached{});
  messages.emplace_back(OmniPathPortState{
      Lid{0x01'0001},
      true, {PKey{0xFFFF}, PKey{0x8001}}
  });
  messages.emplace_back(OmniPathGroupJoined{Lid{0xF0'1000}, "no multicast LID"});
  messages.emplace_back(OmniPathPortsChanged{});
  messages.emplace_back(OmniPathPackets{
      7, {{std::vector<std::byte>(88, std::byte{3})}, {std::vector<std::byte>(2'056)}}
  });
}

}  // namespace weft::uabi::testing
