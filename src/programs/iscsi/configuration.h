#pragma once

// What a user says of targets: by options, or in a TOML file.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "iscsi/chap.h"
#include "scsi/protection.h"

namespace weft::programs::iscsi {

struct UnitConfiguration {
  std::uint16_t lun{};
  std::string path{};         ///< of a file or block device; or
  std::uint64_t ram_bytes{};  ///< of a disk in memory
  std::uint32_t block_bytes{512};
  bool read_only{};
  scsi::ProtectionType protection{};  ///< T10-PI (SBC-3 §4.22); of disks in memory alone
  bool operator==(const UnitConfiguration&) const = default;
};

struct TargetConfiguration {
  std::string name{};
  std::string alias{};
  std::vector<UnitConfiguration> units{};
  std::vector<std::string> initiators{};  ///< empty: everybody
  std::string chap_file{};                ///< empty: no authentication
  bool operator==(const TargetConfiguration&) const = default;
};

struct Configuration {
  std::vector<std::string> portals{};
  std::vector<TargetConfiguration> targets{};
};

/// A logical unit as of the command line: "ram:64M" or a path, then options: "disk.img,bs=4096,ro",
/// "ram:64M,pi=1".
[[nodiscard]] Result<UnitConfiguration> parse_unit(std::string_view text, std::uint16_t lun);
/// The whole format stands in docs/guide/iscsi.md. Unknown keys are refused.
[[nodiscard]] Result<Configuration> parse_configuration(std::string_view text,
                                                        const std::string& name);
[[nodiscard]] Result<Configuration> read_configuration(const std::string& path);

/// Whose secrets they are: a target needs accounts of peers, an initiator its own.
enum class ChapEnd : std::uint8_t { Target, Initiator };

/// Lines of "peer NAME SECRET" (who may log in; of an initiator: the target that proves itself) and
/// at most one "own NAME SECRET" (as whom this end proves itself).
[[nodiscard]] Result<weft::iscsi::ChapPolicy> parse_chap(std::string_view text,
                                                         ChapEnd end = ChapEnd::Target);
/// PermissionDenied if others than its owner may read or write the file.
[[nodiscard]] Result<weft::iscsi::ChapPolicy> read_chap_file(const std::string& path,
                                                             ChapEnd end = ChapEnd::Target);

}  // namespace weft::programs::iscsi
