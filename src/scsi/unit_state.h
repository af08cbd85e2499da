#pragma once

// What a logical unit knows, and what a command's handler may see and ask for. Guarded by the lock
// of the unit; handlers run under it and never touch the device.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scsi/access_states.h"
#include "scsi/block_device.h"
#include "scsi/command.h"
#include "scsi/lun.h"
#include "scsi/media.h"
#include "scsi/mode_pages.h"
#include "scsi/reservations.h"
#include "scsi/unit_attentions.h"

namespace weft::scsi {

/// Keeps reservations over a restart (APTPL). Any thread.
class ReservationStore {
 public:
  virtual ~ReservationStore() = default;
  /// Makes `image` durable, then calls `done(true)`; from inside or later, on any thread. Images
  /// come with rising numbers, but perhaps in another order: an older one than what is kept is
  /// dropped and reported as done.
  virtual void save(std::uint64_t number, std::vector<std::byte> image,
                    std::function<void(bool)> done) = 0;
};

/// Keeps over a restart that a SANITIZE is to go on, or has failed (SBC-3 §4.11.2). Any thread.
class SanitizeStore {
 public:
  virtual ~SanitizeStore() = default;
  /// Makes `image` durable in place of what was kept, or, if it is empty, that nothing is; then
  /// calls `done(true)`, from inside or later, on any thread. One at a time.
  virtual void save(std::vector<std::byte> image, std::function<void(bool)> done) = 0;
};

struct UnitOptions {
  Lun lun{};
  std::string vendor{"WEFT"};
  std::string product{"VIRTUAL DISK"};
  std::string revision{"0001"};
  std::string serial{};
  std::uint64_t naa{0x3000'0000'0000'0000};         ///< locally assigned, unique among units
  ProtectionType protection{ProtectionType::None};  ///< needs a device that keeps protection
  ModeValues modes{};                               ///< defaults; WCE needs a device with a cache
  std::uint32_t max_transfer_bytes{16 << 20};
  std::size_t max_tasks{512};           ///< beyond: BUSY or TASK SET FULL
  std::size_t max_tasks_of_nexus{256};  ///< beyond: TASK SET FULL
  ReservationStore* store{};            ///< none: APTPL is refused
  SanitizeStore* sanitize_store{};      ///< none: a SANITIZE ends with its unit
};

/// A port of the target, as units report it.
struct PortOptions {
  PortId id{};
  std::uint16_t group{1};               ///< target port group
  std::uint8_t protocol{4};             ///< PROTOCOL IDENTIFIER: 4 SRP, 5 iSCSI
  std::vector<std::byte> designator{};  ///< SRP: EUI-64 based, 16 octets; iSCSI: name as text
};

/// How an EXTENDED COPY went whose list identifier its nexus may ask for.
struct CopyResult {
  enum class Status : std::uint8_t { InProgress, Completed, Failed };  // as COPY STATUS has it
  Status status{};
  std::uint16_t segments{};      ///< processed
  std::uint64_t bytes_copied{};  ///< written to copy targets
};

/// What a SANITIZE asks for.
struct SanitizeOrder {
  bool exits{};   ///< EXIT FAILURE MODE: nothing else
  bool erases{};  ///< BLOCK ERASE
  MediaCommand media{};
  std::vector<std::byte> pattern{};  ///< OVERWRITE: a block
  unsigned passes{1};
  bool inverts{};    ///< OVERWRITE: the pattern, from pass to pass
  bool immediate{};  ///< IMMED: the status does not wait for the end
  bool may_exit{};   ///< AUSE: EXIT FAILURE MODE works after a failure
};

enum class SanitizeState : std::uint8_t { None, Running, Failed };

/// What a unit keeps for an I_T nexus, whatever channels that has.
struct NexusMemory {
  UnitAttentions attentions;
  std::map<std::uint8_t, CopyResult> copies;  ///< by list identifier
};

/// A channel of an I_T nexus; most have one.
struct UnitNexus {
  NexusName name;
  std::shared_ptr<NexusMemory> memory{std::make_shared<NexusMemory>()};
  std::size_t tasks{};
  bool is_copy_managers{};  ///< of a CopyTarget: it is told nothing, and its tasks do not count
};

class UnitDirectory;

struct UnitState {
  UnitOptions options;
  BlockDevice* device{};
  ModePages pages{ModeValues{}};
  Reservations reservations;
  AccessStates access;
  std::vector<PortOptions> ports;
  std::vector<Lun> luns;
  std::shared_ptr<UnitDirectory> directory;  ///< none: copies stay within the unit
  std::map<NexusId, UnitNexus> nexuses;
  bool stopped{};  ///< by START STOP UNIT
  SanitizeState sanitize{};
  bool sanitize_may_exit{};
  std::uint16_t sanitize_progress{};

  [[nodiscard]] ModeFacts mode_facts() const;
  [[nodiscard]] Reservations::Facts reservation_facts() const;
  [[nodiscard]] bool is_write_protected() const {
    return device->geometry().read_only || pages.values().software_write_protect;
  }
  /// Null: no such channel. Channels of one I_T nexus have the same.
  [[nodiscard]] const NexusMemory* memory_of(NexusId id) const;
  /// For all I_T nexuses but that of the channel.
  void establish_for_others(NexusId but, SenseCode code);
  void establish_for(const NexusName& name, SenseCode code);
};

struct CommandRow;

/// One command before its handler, and what the handler wants.
struct CommandContext {
  UnitState& unit;
  NexusId nexus_id;
  const NexusName& nexus;
  const CommandRow& row;
  ByteSpan cdb;  ///< exactly the row's length
  ByteSpan data_out;
  MutableByteSpan data_in;
  bool stores_short_data{};
  const SeparateTuples* apart{};  ///< null: the buffers have all that is transferred

  std::size_t wanted_bytes{};               ///< of the buffer of the row's direction, by the CDB
  std::size_t given_bytes{};                ///< put into data_in
  std::optional<MediaCommand> media{};      ///< to be run
  std::optional<SanitizeOrder> sanitize{};  ///< to be begun
  std::optional<std::uint8_t> copy_list{};  ///< whose result is to be kept
  std::vector<NexusName> aborts{};          ///< whose commands are to be aborted
  std::optional<std::vector<std::byte>> saves{};  ///< an image that is to be durable

  /// Parameter data, truncated to the ALLOCATION LENGTH and to the buffer (SPC-4 §4.3.5.6).
  void respond(const ParameterData& data, std::size_t allocation_length);
  /// The parameter list of `length` octets; a shorter buffer ends the command.
  Outcome<ByteSpan> parameters(std::size_t length);
};

using CommandHandler = Outcome<void> (*)(CommandContext&);

}  // namespace weft::scsi
