#include "hca/signed_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::hca {
namespace {

using verbs::SignatureAttributes;
using verbs::SignatureError;
using verbs::SignatureStatus;
using verbs::SignatureType;
using verbs::T10DifDomain;
using wire::ProtectionTuple;

constexpr std::size_t kSector = 512;
constexpr std::size_t kSectors = 40;  // more than twice as many as guards are made of together
constexpr std::size_t kTuple = SignedMemory::kTupleBytes;
constexpr std::uint8_t kCheckAll =
    verbs::kCheckGuard | verbs::kCheckApplicationTag | verbs::kCheckReferenceTag;
constexpr T10DifDomain kDif{
    .application_tag = 0xA5B6, .reference_tag = 0xFFFF'FFFE, .remaps_reference_tag = true};

/// Bit by bit, for content that is not in the standard's table.
std::uint16_t crc_of(ByteSpan data) {
  unsigned remainder = 0;
  for (const std::byte octet : data) {
    remainder ^= std::to_integer<unsigned>(octet) << 8;
    for (int bit = 0; bit < 8; ++bit) {
      remainder =
          ((remainder & 0x8000U) != 0 ? remainder << 1 ^ 0x8BB7U : remainder << 1) & 0xFFFFU;
    }
  }
  return static_cast<std::uint16_t>(remainder);
}

enum class Mode : std::uint8_t { Insert, Strip, Pass };  // from memory's point of view

SignatureAttributes attributes_of(Mode mode, const T10DifDomain& dif = kDif) {
  SignatureAttributes attributes{.check_mask = kCheckAll};
  if (mode != Mode::Insert) {
    attributes.memory = {.type = SignatureType::T10Dif, .dif = dif};
  }
  if (mode != Mode::Strip) {
    attributes.wire = {.type = SignatureType::T10Dif, .dif = dif};
  }
  return attributes;
}

/// Sectors in pieces of `piece` bytes, apart, and their tuples in pieces of 5.
class SignedSectors {
 public:
  explicit SignedSectors(const SignatureAttributes& attributes, std::size_t piece = 300) {
    std::size_t at = 0;
    for (std::size_t left = kSectors * kSector; left != 0; at += piece + 1) {
      const std::size_t take = std::min(piece, left);
      data_.add(std::span{memory_}.subspan(at, take));
      left -= take;
    }
    if (attributes.memory.type == SignatureType::T10Dif) {
      for (std::size_t i = 0; i < kSectors * kTuple; i += 5) {
        metadata_.add(std::span{tuples_}.subspan(2 * i, 5));
      }
    }
    for (std::size_t i = 0; i < kSectors * kSector; ++i) {
      content_.push_back(static_cast<std::byte>((i * 31 + i / 512) & 0xFF));
    }
    for (std::size_t i = 0; i < kSectors; ++i) {
      const auto tuple = wire::pack(
          ProtectionTuple{.guard = crc_of(sector(i)),
                          .application_tag = kDif.application_tag,
                          .reference_tag = static_cast<std::uint32_t>(kDif.reference_tag + i)});
      expected_.insert(expected_.end(), tuple.begin(), tuple.end());
    }
    has_tuples_ = attributes.wire.type == SignatureType::T10Dif;
    signed_.emplace(data_, metadata_, LockPolicy::None);
    refusal_ = signed_->sign(attributes);
  }

  [[nodiscard]] ByteSpan sector(std::size_t index) const {
    return ByteSpan{content_}.subspan(index * kSector, kSector);
  }
  static void scatter(const PagedMemory& memory, ByteSpan from) {
    memory.visit(0, from.size(), [&](std::span<std::byte> piece) {
      copy_bytes(piece, from.first(piece.size()));
      from = from.subspan(piece.size());
    });
  }
  static std::vector<std::byte> gather(const PagedMemory& memory) {
    std::vector<std::byte> all;
    memory.visit(0, memory.length(),
                 [&](ByteSpan piece) { all.insert(all.end(), piece.begin(), piece.end()); });
    return all;
  }
  /// What the wire carries of `content` and `tuples`.
  [[nodiscard]] std::vector<std::byte> on_wire(ByteSpan tuples) const {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < kSectors; ++i) {
      all.insert(all.end(), sector(i).begin(), sector(i).end());
      if (has_tuples_) {
        const ByteSpan tuple = tuples.subspan(i * kTuple, kTuple);
        all.insert(all.end(), tuple.begin(), tuple.end());
      }
    }
    return all;
  }
  /// Reads all that the key names in steps of `step` bytes.
  [[nodiscard]] std::vector<std::byte> read(std::size_t step) {
    std::vector<std::byte> all;
    while (all.size() < signed_->length()) {
      const std::size_t take = std::min<std::size_t>(step, signed_->length() - all.size());
      signed_->visit(all.size(), take,
                     [&](ByteSpan piece) { all.insert(all.end(), piece.begin(), piece.end()); });
    }
    return all;
  }
  void write(ByteSpan bytes, std::size_t step) {
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      signed_->place(at, bytes.subspan(at, std::min(step, bytes.size() - at)), copy_bytes);
    }
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(2 * kSectors * kSector);
  std::vector<std::byte> tuples_ = std::vector<std::byte>(2 * kSectors * kTuple);
  std::vector<std::byte> content_;
  std::vector<std::byte> expected_;  // the right tuples of `content_`
  PagedMemory data_;
  PagedMemory metadata_;
  bool has_tuples_{};
  std::optional<SignedMemory> signed_;
  std::string_view refusal_;
};

constexpr std::array kSteps{std::size_t{1}, std::size_t{7}, std::size_t{256}, std::size_t{521},
                            std::size_t{10'000}};

// T-MR-4: what is sent and what is received, in each mode, in packets of each length.
TEST(SignedMemory, InsertsStripsAndPassesTuplesBothWays) {
  for (const Mode mode : {Mode::Insert, Mode::Strip, Mode::Pass}) {
    for (const std::size_t step : kSteps) {
      SCOPED_TRACE(std::to_string(static_cast<int>(mode)) + " by " + std::to_string(step));
      SignedSectors out{attributes_of(mode)};
      ASSERT_EQ(out.refusal_, "");
      SignedSectors::scatter(out.data_, out.content_);
      if (mode != Mode::Insert) {
        SignedSectors::scatter(out.metadata_, out.expected_);
      }
      const std::vector<std::byte> wire = out.on_wire(out.expected_);
      EXPECT_EQ(out.signed_->length(), wire.size());
      EXPECT_EQ(out.read(step), wire);
      EXPECT_FALSE(out.signed_->take_status().failed);

      SignedSectors in{attributes_of(mode)};
      in.write(wire, step);
      EXPECT_EQ(SignedSectors::gather(in.data_), in.content_);
      if (mode != Mode::Insert) {
        EXPECT_EQ(SignedSectors::gather(in.metadata_), in.expected_);
      }
      EXPECT_FALSE(in.signed_->take_status().failed);
    }
  }
}

// T-MR-4: each tag damaged at one sector, on the side where tuples come from. Of what has no tuple
// where it comes from, nothing can be damaged.
TEST(SignedMemory, FindsEachDamagedTagAndItsSectorAndGoesOn) {
  struct Damage {
    std::size_t octet;
    SignatureError error;
  };
  constexpr std::array kDamages{
      Damage{1, SignatureError::BadGuard         },
      Damage{2, SignatureError::BadApplicationTag},
      Damage{7, SignatureError::BadReferenceTag  },
  };
  constexpr std::size_t kBad = 3;
  for (const auto& [octet, error] : kDamages) {
    for (const Mode mode : {Mode::Insert, Mode::Strip, Mode::Pass}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(mode)) + " octet " + std::to_string(octet));
      const auto expect_found = [&](SignedSectors& sectors) {
        const SignatureStatus status = sectors.signed_->take_status();
        EXPECT_TRUE(status.failed);
        EXPECT_EQ(status.error, error);
        EXPECT_EQ(status.offset / (kSector + kTuple), kBad);
        EXPECT_NE(status.expected, status.actual);
        EXPECT_FALSE(sectors.signed_->take_status().failed);  // it was taken
      };
      SignedSectors out{attributes_of(mode)};
      std::vector<std::byte> damaged = out.expected_;
      damaged[kBad * kTuple + octet] ^= std::byte{0x40};
      if (mode != Mode::Insert) {
        SignedSectors::scatter(out.data_, out.content_);
        SignedSectors::scatter(out.metadata_, damaged);
        EXPECT_EQ(out.read(256), out.on_wire(damaged));  // and the peer gets to see the damage
        expect_found(out);
      }
      SignedSectors in{attributes_of(mode)};
      if (mode != Mode::Strip) {
        in.write(in.on_wire(damaged), 256);
        EXPECT_EQ(SignedSectors::gather(in.data_), in.content_);
        if (mode == Mode::Pass) {
          EXPECT_EQ(SignedSectors::gather(in.metadata_), damaged);
        }
        expect_found(in);
      }
    }
  }
}

TEST(SignedMemory, FindsDamagedDataByItsGuard) {
  SignedSectors in{attributes_of(Mode::Insert)};
  std::vector<std::byte> wire = in.on_wire(in.expected_);
  wire[2 * (kSector + kTuple) + 100] ^= std::byte{1};
  wire[4 * (kSector + kTuple) + 100] ^= std::byte{1};
  in.write(wire, 256);
  const SignatureStatus status = in.signed_->take_status();
  EXPECT_EQ(status.error, SignatureError::BadGuard);
  EXPECT_EQ(status.offset, 2 * (kSector + kTuple));  // the first of the two
  EXPECT_EQ(status.actual, crc_of(in.sector(2)));
}

TEST(SignedMemory, ChecksOnlyWhatTheMaskSays) {
  for (const std::uint8_t mask :
       {verbs::kCheckGuard, verbs::kCheckApplicationTag, verbs::kCheckReferenceTag}) {
    SignatureAttributes attributes = attributes_of(Mode::Insert);
    attributes.check_mask = static_cast<std::uint8_t>(kCheckAll & ~mask);
    SignedSectors in{attributes};
    std::vector<std::byte> damaged = in.expected_;
    damaged[mask == verbs::kCheckGuard            ? 0
            : mask == verbs::kCheckApplicationTag ? 2
                                                  : 7] ^= std::byte{1};
    in.write(in.on_wire(damaged), 256);
    EXPECT_FALSE(in.signed_->take_status().failed) << static_cast<int>(mask);
  }
  SignatureAttributes attributes = attributes_of(Mode::Insert);
  attributes.wire.dif.application_check_mask = 0x00FF;
  SignedSectors in{attributes};
  std::vector<std::byte> damaged = in.expected_;
  damaged[2] ^= std::byte{1};
  in.write(in.on_wire(damaged), 256);
  EXPECT_FALSE(in.signed_->take_status().failed);
}

TEST(SignedMemory, SkipsIntervalsWhoseTagsSayThatNothingIsChecked) {  // SBC-3 §4.22.2
  for (const bool needs_reference : {false, true}) {
    for (const std::uint32_t reference : {5U, 0xFFFF'FFFFU}) {
      SignatureAttributes attributes = attributes_of(Mode::Pass);
      attributes.wire.dif.application_escape = true;
      attributes.wire.dif.reference_escape = needs_reference;
      SignedSectors in{attributes};
      std::vector<std::byte> tuples = in.expected_;
      const auto escape = wire::pack(
          ProtectionTuple{.guard = 1, .application_tag = 0xFFFF, .reference_tag = reference});
      std::ranges::copy(escape, tuples.begin());
      in.write(in.on_wire(tuples), 256);
      EXPECT_EQ(in.signed_->take_status().failed, needs_reference && reference == 5);
    }
  }
}

TEST(SignedMemory, MakesAnewWhatTheDomainsDifferIn) {
  SignatureAttributes attributes = attributes_of(Mode::Pass);
  attributes.memory.dif = {
      .guard = T10DifDomain::Guard::IpChecksum, .application_tag = 0x1111, .reference_tag = 40};
  SignedSectors in{attributes};
  in.write(in.on_wire(in.expected_), 256);
  EXPECT_FALSE(in.signed_->take_status().failed);
  const std::vector<std::byte> tuples = SignedSectors::gather(in.metadata_);
  for (std::size_t i = 0; i < kSectors; ++i) {
    EXPECT_EQ(*wire::parse<ProtectionTuple>(ByteSpan{tuples}.subspan(i * kTuple)),
              (ProtectionTuple{.guard = wire::ip_checksum(in.sector(i)),
                               .application_tag = 0x1111,
                               .reference_tag = 40}));
  }
  EXPECT_EQ(in.read(256), in.on_wire(in.expected_));  // and back
}

TEST(SignedMemory, RefusesMemoryThatHasNotTheFormOfItsAttributes) {
  EXPECT_NE(SignedSectors{SignatureAttributes{}}.refusal_, "");
  SignatureAttributes attributes = attributes_of(Mode::Pass);
  attributes.wire.dif.protection_interval = 1'024;
  EXPECT_NE(SignedSectors{attributes}.refusal_, "");
  attributes = attributes_of(Mode::Insert);
  attributes.wire.dif.protection_interval = 0;
  EXPECT_NE(SignedSectors{attributes}.refusal_, "");
  attributes.wire.dif.protection_interval = 513;
  EXPECT_NE(SignedSectors{attributes}.refusal_, "");
  SignedSectors sectors{attributes_of(Mode::Insert)};
  EXPECT_NE(sectors.signed_->sign(attributes_of(Mode::Pass)), "");  // there is no room for tuples
  EXPECT_EQ(sectors.signed_->length(), 0U);
  EXPECT_EQ(sectors.signed_->sign(attributes_of(Mode::Insert)), "");
}

}  // namespace
}  // namespace weft::hca
