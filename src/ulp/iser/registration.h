#pragma once

// How the memory of tasks becomes visible to the target (the seed's iser_reg_ops): as the device
// can. One pool a connection.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/fmr_pool.h"
#include "core/mr.h"
#include "core/mr_pool.h"
#include "core/pd.h"
#include "core/work_request.h"
#include "ulp/iser/protection.h"

namespace weft::iser {

enum class RegistrationScheme : std::uint8_t {
  Fast,       ///< by work requests, under a new key each time
  Fmr,        ///< by calls that are cheap; what the target saw last it may see for a while
  Verb,       ///< by calls, kept for the next task with the same memory
  GlobalKey,  ///< a key for all memory: the target is trusted with it
};
[[nodiscard]] std::string_view name_of(RegistrationScheme scheme);

/// The best of what the device offers. `trusts_target`: a global key will do where the data is in
/// one piece, and nothing has to be registered.
[[nodiscard]] RegistrationScheme choose_scheme(const core::Device& device, bool trusts_target);

/// Memory that is kept for data of tasks alone, of which theirs is a part: one registration serves
/// all of it.
struct KeptMemory {
  std::uint64_t address{};
  std::uint64_t length{};
  std::shared_ptr<const void> holder{};  ///< it stays as long
};
/// What these octets are a part of, if of any.
using FindKeptMemory =
    std::function<std::optional<KeptMemory>(std::uint64_t address, std::uint64_t bytes)>;

/// Memory that the target may reach by `rkey` from `address` on, while it is registered.
struct Registration {
  RKey rkey{};
  std::uint64_t address{};
  core::Mr* mr{};        ///< null: the global key, or an FMR
  core::PoolFmr* fmr{};  ///< of Fmr
  bool needs_request{};  ///< visible only after a work request
  bool is_visible{};     ///< to be invalidated before the memory is its owner's again
};

[[nodiscard]] inline bool is_protected(const Registration& registration) {
  return registration.mr != nullptr && registration.mr->type() == core::MrType::Integrity;
}

/// One thread.
class RegistrationPool {
 public:
  struct Options {
    RegistrationScheme scheme{};
    std::uint32_t count{};            ///< registrations at a time: two a command
    std::uint32_t max_bytes{};        ///< of one
    std::uint32_t protected_count{};  ///< of Fast: those with protection information beside
    FindKeptMemory kept_memory{};     ///< of Verb; null: there is none
  };
  static Result<std::unique_ptr<RegistrationPool>> create(core::Pd& pd, const Options& options);
  ~RegistrationPool();
  RegistrationPool(const RegistrationPool&) = delete;
  RegistrationPool& operator=(const RegistrationPool&) = delete;

  /// Of one list of memory of this process. `target_writes`: the target's RDMA WRITEs, else its
  /// READs. InvalidArgument: a list that the scheme cannot show in one piece; OutOfMemory: more at
  /// a time than the pool is for.
  Result<Registration> map(std::span<const core::ScatterEntry> list, bool target_writes);
  /// The same with protection information, which goes as `protection` says; as long as the wire's
  /// form. NotSupported: this pool has none of these.
  Result<Registration> map_protected(std::span<const core::ScatterEntry> list,
                                     const TaskProtection& protection);
  /// What the checks of a protected registration have found.
  [[nodiscard]] static core::SignatureStatus status_of(const Registration& registration);
  /// The work requests that show and hide what map() made; of Fast only.
  [[nodiscard]] static core::SendWr show_request(const Registration& registration,
                                                 bool target_writes);
  [[nodiscard]] static core::SendWr hide_request(const Registration& registration);
  /// Nobody reaches the memory by it any more.
  void release(Registration& registration);

  [[nodiscard]] RegistrationScheme scheme() const { return options_.scheme; }
  [[nodiscard]] bool protects() const { return options_.protected_count != 0; }
  [[nodiscard]] std::uint32_t taken() const { return taken_; }
  [[nodiscard]] std::size_t free() const;

 private:
  struct Kept {
    core::Mr* mr{};
    KeptMemory memory;
    bool target_writes{};
    std::uint32_t users{};
  };
  RegistrationPool(core::Pd& pd, const Options& options);
  Result<void> fill_fast();
  Result<void> fill_fmrs();
  Result<std::uint64_t> check_bytes(std::span<const core::ScatterEntry> list) const;
  Result<Registration> map_fast(std::span<const core::ScatterEntry> list);
  Result<Registration> map_by_fmr(std::span<const core::ScatterEntry> list);
  Result<Registration> map_by_verb(core::ScatterEntry range, bool target_writes);
  [[nodiscard]] Kept* find_kept(core::ScatterEntry range, bool target_writes);
  Result<Kept*> keep(KeptMemory memory, bool target_writes);
  void drop_unused(bool (*is_dropped)(const Kept& kept));

  core::Pd& pd_;
  const Options options_;
  core::MrPool mrs_;            // Fast
  core::MrPool protected_mrs_;  // the same, of integrity
  core::FmrPool* fmrs_{};       // Fmr
  std::vector<Kept> kept_;      // Verb
  std::uint32_t taken_{};
};

}  // namespace weft::iser
