#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/keys.h"
#include "base/result.h"
#include "core/dma.h"
#include "core/pd.h"
#include "core/resource.h"
#include "core/signature.h"
#include "verbs/access_flags.h"

namespace weft::core {

/// Kinds of memory region (`enum ib_mr_type`).
enum class MrType : std::uint8_t {
  MemoryRegistration,  ///< a list of pages, registered by a work request
  SgGaps,              ///< the same of any list of elements, without regard to pages
  User,                ///< a program's own range
  Dma,                 ///< all memory of the process
  Integrity,           ///< a list of data and one of protection information
};

/// Memory region. Mapping and registration of one region are its user's to serialise.
class Mr final : public Resource {
 public:
  Mr(Pd& pd, MrType type, const char* caller)
      : Resource(pd.device(), ResourceKind::Mr, caller), pd_(pd), type_(type) {}

  [[nodiscard]] Pd& pd() const { return pd_; }
  [[nodiscard]] MrType type() const { return type_; }
  [[nodiscard]] bool is_fast_registration() const {
    return type_ == MrType::MemoryRegistration || type_ == MrType::SgGaps ||
           type_ == MrType::Integrity;
  }
  /// Entries of the page or element list that it was made for.
  [[nodiscard]] std::uint32_t max_entries() const { return max_entries_; }
  /// The same of an integrity region's list of protection information.
  [[nodiscard]] std::uint32_t max_metadata_entries() const { return max_metadata_entries_; }

  // Set by the driver when it makes the region, then by mapping.
  LKey lkey{};
  RKey rkey{};
  std::uint64_t iova{};       ///< of the first byte
  std::uint64_t length{};     ///< bytes
  std::uint32_t page_size{};  ///< bytes
  bool needs_invalidation{};  ///< for its user: registered and not yet invalidated (`need_inval`)
  /// Integrity: what its user sets before registration (`ib_sig_attrs`); else null.
  std::unique_ptr<SignatureAttributes> signature;

 private:
  friend Result<Mr*> allocate_mr(Pd& pd, MrType type, std::uint32_t max_entries, const char* caller,
                                 UserData* user_data);
  friend Result<Mr*> allocate_mr_integrity(Pd& pd, std::uint32_t max_data, std::uint32_t max_meta,
                                           const char* caller);
  Pd& pd_;
  const MrType type_;
  std::uint32_t max_entries_{};
  std::uint32_t max_metadata_entries_{};
};

/// For registration by work requests (R-MR-1). InvalidArgument: Integrity, or more entries than the
/// device takes; NotSupported: the driver has no such verb.
Result<Mr*> allocate_mr(Pd& pd, MrType type, std::uint32_t max_entries, const char* caller = "core",
                        UserData* user_data = nullptr);

/// With lists of at most so many elements of data and of protection information (R-MR-2).
Result<Mr*> allocate_mr_integrity(Pd& pd, std::uint32_t max_data, std::uint32_t max_meta,
                                  const char* caller = "core");

/// All memory of the process (`get_dma_mr`): for the stack itself.
Result<Mr*> get_dma_mr(Pd& pd, verbs::AccessFlags access, const char* caller = "core");

/// A program's range, at the address `iova` for peers.
struct UserMemoryRange {
  std::uint64_t start{};
  std::uint64_t length{};  ///< bytes
  std::uint64_t iova{};
};
Result<Mr*> register_user_mr(Pd& pd, const UserMemoryRange& range, verbs::AccessFlags access,
                             UserData* user_data);

/// Busy: windows are bound to it, and it stays whole.
Result<void> deregister_mr(Mr& mr, UserData* user_data = nullptr);

/// Gives both keys this low byte, which is the consumer's (`ib_update_fast_reg_key`).
void update_fast_registration_key(Mr& mr, std::uint8_t low_byte);
/// The key with the next low byte (`ib_inc_rkey`).
[[nodiscard]] constexpr std::uint32_t next_key(std::uint32_t key) {
  return (key & 0xFFFF'FF00) | ((key + 1) & 0xFF);
}

/// Maps the longest prefix of `list` that the region can show, from byte `*offset` of the first
/// element on (null: 0); how many elements that is (R-MR-3). The region is then ready for a
/// registration work request. Only the first element may start within a page, only the last may
/// end within one, others follow each other without a gap; none of this for SgGaps, which ignores
/// `page_size`.
Result<std::uint32_t> map_mr_sg(Mr& mr, std::span<const ScatterEntry> list, std::uint32_t* offset,
                                std::uint32_t page_size);

/// The same of an integrity region's two lists, each whole or not at all (R-MR-4). The region's
/// `signature` is set before, since its length, which is the wire's, depends on it: `length` and
/// the keys are those of the wire's form. InvalidArgument: also, lists that are not what the
/// attributes ask for.
struct MappedList {
  std::span<const ScatterEntry> list{};
  std::uint32_t* offset{};
};
Result<void> map_mr_sg_pi(Mr& mr, const MappedList& data, const MappedList& meta,
                          std::uint32_t page_size);

/// For drivers (`ib_sg_to_pages`): calls `set_page` with the address of each page of the longest
/// prefix, and sets iova and length of the region. A refusal of `set_page` ends the prefix. The
/// number of elements; `*offset` says how many bytes of the next one were taken (R-MR-5).
Result<std::uint32_t> sg_to_pages(Mr& mr, std::span<const ScatterEntry> list, std::uint32_t* offset,
                                  const std::function<bool(std::uint64_t page)>& set_page);

/// What the checks of an integrity region found since the last call; NotSupported elsewhere
/// (`ib_check_mr_status`).
Result<SignatureStatus> check_mr_status(Mr& mr);

/// Memory window (IBTA vol 1 §10.6.7).
enum class MwType : std::uint8_t { Type1 = 1, Type2 = 2 };
class Mw final : public Resource {
 public:
  Mw(Pd& pd, MwType type) : Resource(pd.device(), ResourceKind::Mw, "core"), pd_(pd), type_(type) {}
  [[nodiscard]] Pd& pd() const { return pd_; }
  [[nodiscard]] MwType type() const { return type_; }
  RKey rkey{};

 private:
  Pd& pd_;
  const MwType type_;
};
Result<Mw*> allocate_mw(Pd& pd, MwType type);
Result<void> deallocate_mw(Mw& mw);

}  // namespace weft::core
