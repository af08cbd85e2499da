#pragma once

// The outer form of the tables' image, shared by its writer and its validator. Records of memory
// shared between processes of one machine, hence in its own byte order; never on a wire.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "fabric/tables.h"

namespace weft::fabric {

inline constexpr std::uint64_t kImageMagic = 0x3142'4146'5446'4557;  // "WEFTFAB1"
inline constexpr std::uint32_t kImageVersion = 2;
inline constexpr std::uint32_t kFirstMlid = 0xC000;

enum class SectionId : std::uint8_t {
  Nodes,
  Hcas,
  Ports,
  Gids,
  GidOwners,
  GidOrder,
  PKeys,
  LidOwners,
  Names,
  Forwarding,
  Multicast,
  Faults,
};
inline constexpr std::size_t kSectionCount = 12;

struct Section {
  std::uint64_t offset{};  // bytes from the image's start, a multiple of 8
  std::uint64_t count{};   // elements
};

struct ImageHeader {
  std::uint64_t magic{kImageMagic};
  std::uint32_t version{kImageVersion};
  std::uint32_t reserved{};
  std::uint64_t image_bytes{};
  std::uint64_t generation{};
  std::uint64_t subnet_prefix{};
  std::array<Section, kSectionCount> sections{};
};

// Equal states give equal images only if no record has padding, whose bytes could be anything.
static_assert(std::has_unique_object_representations_v<ImageHeader>);
static_assert(std::has_unique_object_representations_v<NodeRecord>);
static_assert(std::has_unique_object_representations_v<HcaRecord>);
static_assert(std::has_unique_object_representations_v<PortRecord>);
static_assert(std::has_unique_object_representations_v<FaultRecord>);
static_assert(sizeof(PortRecord) == 64 && sizeof(NodeRecord) == 64 && sizeof(HcaRecord) == 40);

}  // namespace weft::fabric
