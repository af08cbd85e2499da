#pragma once

// The framing of the tables' image, for its writer and its validator. Records are shared between
// processes of one machine, hence in native byte order; never on a wire.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "fabric/tables.h"

namespace weft::fabric {

inline constexpr std::uint64_t kImageMagic = 0x3142'4146'5446'4557;  // "WEFTFAB1"
inline constexpr std::uint32_t kImageVersion = 4;
inline constexpr std::uint32_t kFirstMlid = 0xC000;

/// The sections of an image, in the order of ImageHeader::sections.
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
  SlotLoans,
  ManagementLevels,
};
inline constexpr std::size_t kSectionCount = 14;

/// The order of SectionId::SlotLoans.
[[nodiscard]] constexpr std::pair<NodeIndex, std::uint32_t> loan_key(const SlotLoanRecord& loan) {
  return {loan.lender, loan.first_slot};
}

/// Place of a section's records.
struct Section {
  std::uint64_t offset{};  // bytes from the start of the image, a multiple of 8
  std::uint64_t count{};   // elements
};

/// The start of an image.
struct ImageHeader {
  std::uint64_t magic{kImageMagic};
  std::uint32_t version{kImageVersion};
  std::uint32_t reserved{};
  std::uint64_t image_bytes{};
  std::uint64_t generation{};
  std::uint64_t subnet_prefix{};
  std::array<Section, kSectionCount> sections{};
};

// Equal states give equal images only if no record has padding, whose bytes are indeterminate.
static_assert(std::has_unique_object_representations_v<ImageHeader>);
static_assert(std::has_unique_object_representations_v<NodeRecord>);
static_assert(std::has_unique_object_representations_v<HcaRecord>);
static_assert(std::has_unique_object_representations_v<PortRecord>);
static_assert(std::has_unique_object_representations_v<FaultRecord>);
static_assert(std::has_unique_object_representations_v<SlotLoanRecord>);
static_assert(std::has_unique_object_representations_v<ManagementLevelsRecord>);
static_assert(sizeof(PortRecord) == 64 && sizeof(NodeRecord) == 64 && sizeof(HcaRecord) == 40);

}  // namespace weft::fabric
