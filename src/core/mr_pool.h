#pragma once

#include <cstdint>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "core/mr.h"

namespace weft::core {

class Qp;

/// Regions that a QP's RDMA contexts take and give back without allocation (`ib_mr_pool_*`). Any
/// thread.
class MrPool {
 public:
  explicit MrPool(LockPolicy policy) : lock_(policy) {}
  ~MrPool();
  MrPool(const MrPool&) = delete;
  MrPool& operator=(const MrPool&) = delete;

  /// Fills it: all of them or none. Of Integrity regions `max_meta` elements besides.
  Result<void> fill(Pd& pd, std::uint32_t count, MrType type, std::uint32_t max_entries,
                    std::uint32_t max_meta = 0);
  /// Null: none is left.
  [[nodiscard]] Mr* get();
  void put(Mr& mr);
  /// Deregisters all of them; every one that was taken has been put.
  void clear();

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t taken() const;

 private:
  mutable PolicyLock lock_;
  std::vector<Mr*> free_;
  std::size_t taken_{};
};

}  // namespace weft::core
