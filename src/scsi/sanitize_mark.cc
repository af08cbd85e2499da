#include "scsi/sanitize_mark.h"

#include "scsi/big_endian.h"
#include "scsi/protection.h"
#include "scsi/sense.h"

// Octets of our own format:
//   0 "WSZ1"   4 CRC-16 of what follows octet 8   6 zero   8 flags   9 passes   10 zero   12
//   pattern

namespace weft::scsi {
namespace {

constexpr std::uint32_t kMagic = 0x57535A31;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::uint8_t kFailed = 0x01;
constexpr std::uint8_t kErases = 0x02;
constexpr std::uint8_t kInverts = 0x04;
constexpr std::uint8_t kMayExit = 0x08;

}  // namespace

std::vector<std::byte> SanitizeMark::image() const {
  ParameterData data;
  data.add(4, kMagic).add(4, 0);
  data.add(1, (failed ? kFailed : 0U) | (erases ? kErases : 0U) | (inverts ? kInverts : 0U) |
                  (may_exit ? kMayExit : 0U));
  data.add(1, passes).add(2, 0).add(pattern);
  data.set(4, 2, crc_t10_dif(data.octets().subspan(8)));
  return {data.octets().begin(), data.octets().end()};
}

Result<SanitizeMark> SanitizeMark::parse(ByteSpan image) {
  if (image.size() < kHeaderBytes || load32(image, 0) != kMagic ||
      load16(image, 4) != crc_t10_dif(image.subspan(8))) {
    return fail(ErrorCode::Io, "{} octets are nothing that is kept of a SANITIZE", image.size());
  }
  const std::uint8_t flags = load8(image, 8);
  const ByteSpan pattern = image.subspan(kHeaderBytes);
  return SanitizeMark{
      .failed = (flags & kFailed) != 0,
      .erases = (flags & kErases) != 0,
      .inverts = (flags & kInverts) != 0,
      .may_exit = (flags & kMayExit) != 0,
      .passes = load8(image, 9),
      .pattern = {pattern.begin(), pattern.end()}
  };
}

}  // namespace weft::scsi
