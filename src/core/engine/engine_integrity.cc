// Integrity regions of an engine: data with protection information, registered by work requests.

#include <algorithm>
#include <bit>
#include <utility>

#include "core/engine/engine_operations.h"
#include "hca/paged_memory.h"

namespace weft::core::engine {
namespace {

[[nodiscard]] hca::Hca& hca_of(const Mr& mr) { return engine_of(mr.device()).hca(); }

[[nodiscard]] hca::FastRegion& fast_region(const Mr& mr) {
  return *static_cast<hca::FastRegion*>(mr.driver_data);
}

Result<void> allocate_mr_integrity(Mr& mr, std::uint32_t max_data, std::uint32_t max_meta) {
  const auto made =
      hca_of(mr).allocate_fast_region(engine_pd(mr.pd()), std::max(max_data, max_meta));
  if (!made) {
    return std::unexpected(made.error());
  }
  mr.driver_data = *made;
  mr.lkey = LKey{(*made)->key()};
  mr.rkey = RKey{(*made)->key()};
  return {};
}

/// All elements of a list from its offset on.
Result<hca::PagedMemory> whole(const MappedList& list, std::uint32_t most) {
  std::uint64_t skipped = list.offset != nullptr ? *list.offset : 0;
  if (list.list.size() > most) {
    return fail(ErrorCode::InvalidArgument, "a list of {} elements; the region has {}",
                list.list.size(), most);
  }
  if (!list.list.empty() && skipped >= list.list.front().length) {
    return fail(ErrorCode::InvalidArgument, "byte {} is not in the first element", skipped);
  }
  hca::PagedMemory memory;
  for (const ScatterEntry& element : list.list) {
    memory.add({std::bit_cast<std::byte*>(element.address + skipped), element.length - skipped});
    skipped = 0;
  }
  return memory;
}

/// How long the region is depends on its attributes, which its user may still change or set: by
/// those of now when it is mapped, and by the last ones when it is registered.
Result<void> sign(Mr& mr) {
  const auto length = hca_of(mr).sign(fast_region(mr), *mr.signature);
  if (!length) {
    return std::unexpected(length.error());
  }
  mr.length = *length;
  return {};
}

Result<void> map_mr_sg_pi(Mr& mr, const MappedList& data, const MappedList& meta) {
  auto content = whole(data, mr.max_entries());
  if (!content) {
    return std::unexpected(content.error());
  }
  auto tuples = whole(meta, mr.max_metadata_entries());
  if (!tuples) {
    return std::unexpected(tuples.error());
  }
  if (data.list.empty()) {
    return fail(ErrorCode::InvalidArgument, "the list of data is empty");
  }
  mr.iova = data.list.front().address + (data.offset != nullptr ? *data.offset : 0);
  mr.signature->metadata_length = tuples->length();
  mr.length = content->length() + tuples->length();
  hca_of(mr).map_signed(fast_region(mr), mr.iova, std::move(*content), std::move(*tuples));
  const bool has_attributes = mr.signature->memory.type != SignatureType::None ||
                              mr.signature->wire.type != SignatureType::None;
  return has_attributes ? sign(mr) : Result<void>{};
}

Result<SignatureStatus> check_mr_status(Mr& mr) {
  if (mr.type() != MrType::Integrity) {
    return fail(ErrorCode::NotSupported, "the region is not checked: it is none of integrity");
  }
  SignatureStatus status = hca_of(mr).take_signature_status(fast_region(mr));
  status.key = mr.lkey.value();
  return status;
}

}  // namespace

Result<void> EngineOperations::sign(Mr& mr) { return engine::sign(mr); }

void EngineOperations::add_integrity(DeviceOperations& operations) {
  operations.allocate_mr_integrity = allocate_mr_integrity;
  operations.map_mr_sg_pi = map_mr_sg_pi;
  operations.check_mr_status = check_mr_status;
}

}  // namespace weft::core::engine
