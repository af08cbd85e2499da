#include "core/mr.h"

#include <bit>
#include <memory>
#include <utility>

#include "core/device.h"

namespace weft::core {
namespace {

/// Makes a region by `make(region)`, which gives it its keys.
template <class Make>
Result<Mr*> create(Pd& pd, MrType type, const char* caller, Make make) {
  auto mr = std::make_unique<Mr>(pd, type, caller);
  if (const Result<void> made = make(*mr); !made) {
    return std::unexpected(made.error());
  }
  pd.hold();
  pd.device().add_resource(*mr);
  return mr.release();
}

Result<void> check_entries(std::uint32_t asked, std::uint32_t most, std::string_view what) {
  if (asked == 0 || asked > most) {
    return fail(ErrorCode::InvalidArgument, "a list of {} {} entries; the device takes 1 to {}",
                asked, what, most);
  }
  return {};
}

}  // namespace

Result<Mr*> allocate_mr(Pd& pd, MrType type, std::uint32_t max_entries, const char* caller,
                        UserData* /*user_data*/) {
  Device& device = pd.device();
  if (device.operations().allocate_mr == nullptr) {
    return fail(ErrorCode::NotSupported, "{} registers no memory by work requests", device.name());
  }
  if (type != MrType::MemoryRegistration && type != MrType::SgGaps) {
    return fail(ErrorCode::InvalidArgument,
                "regions of this type are not made by this call; of integrity by the one for it");
  }
  const DeviceAttributes& attributes = device.attributes();
  if (type == MrType::SgGaps &&
      !attributes.capabilities.has(DeviceCapability::SgGapsRegistration)) {
    return fail(ErrorCode::NotSupported, "{} registers no lists with gaps", device.name());
  }
  if (const auto checked =
          check_entries(max_entries, attributes.max_fast_registration_entries, "page");
      !checked) {
    return std::unexpected(checked.error());
  }
  return create(pd, type, caller, [&](Mr& mr) {
    mr.max_entries_ = max_entries;
    return device.operations().allocate_mr(mr, max_entries);
  });
}

Result<Mr*> allocate_mr_integrity(Pd& pd, std::uint32_t max_data, std::uint32_t max_meta,
                                  const char* caller) {
  Device& device = pd.device();
  if (device.operations().allocate_mr_integrity == nullptr ||
      device.operations().map_mr_sg_pi == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no integrity regions", device.name());
  }
  const std::uint32_t most = device.attributes().max_integrity_entries;
  if (const auto checked = check_entries(max_data, most, "data"); !checked) {
    return std::unexpected(checked.error());
  }
  if (const auto checked = check_entries(max_meta, most, "metadata"); !checked) {
    return std::unexpected(checked.error());
  }
  return create(pd, MrType::Integrity, caller, [&](Mr& mr) {
    mr.max_entries_ = max_data;
    mr.max_metadata_entries_ = max_meta;
    mr.signature = std::make_unique<SignatureAttributes>();
    return device.operations().allocate_mr_integrity(mr, max_data, max_meta);
  });
}

Result<Mr*> get_dma_mr(Pd& pd, verbs::AccessFlags access, const char* caller) {
  Device& device = pd.device();
  if (device.operations().get_dma_mr == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no region of all memory", device.name());
  }
  return create(pd, MrType::Dma, caller,
                [&](Mr& mr) { return device.operations().get_dma_mr(mr, access); });
}

Result<Mr*> register_user_mr(Pd& pd, const UserMemoryRange& range, verbs::AccessFlags access,
                             UserData* user_data) {
  Device& device = pd.device();
  if (device.operations().register_user_mr == nullptr) {
    return fail(ErrorCode::NotSupported, "{} registers no memory of programs", device.name());
  }
  constexpr verbs::AccessFlags kWrites =
      verbs::AccessFlags{verbs::Access::RemoteWrite} | verbs::Access::RemoteAtomic;
  if (!(access & kWrites).empty() && !access.has(verbs::Access::LocalWrite)) {
    return fail(ErrorCode::InvalidArgument, "who lets peers write also writes itself: LocalWrite");
  }
  return create(pd, MrType::User, "user", [&](Mr& mr) {
    mr.iova = range.iova;
    mr.length = range.length;
    return device.operations().register_user_mr(mr, range, access, user_data);
  });
}

Result<void> deregister_mr(Mr& mr, UserData* user_data) {
  Device& device = mr.device();
  if (auto gone = device.operations().deregister_mr(mr, user_data); !gone) {
    return gone;
  }
  device.remove_resource(mr);
  mr.pd().put();
  std::unique_ptr<Mr>{&mr}.reset();
  return {};
}

void update_fast_registration_key(Mr& mr, std::uint8_t low_byte) {
  mr.lkey = LKey{(mr.lkey.value() & 0xFFFF'FF00) | low_byte};
  mr.rkey = RKey{(mr.rkey.value() & 0xFFFF'FF00) | low_byte};
}

Result<std::uint32_t> map_mr_sg(Mr& mr, std::span<const ScatterEntry> list, std::uint32_t* offset,
                                std::uint32_t page_size) {
  Device& device = mr.device();
  if (device.operations().map_mr_sg == nullptr) {
    return fail(ErrorCode::NotSupported, "{} maps no lists", device.name());
  }
  if (mr.type() != MrType::MemoryRegistration && mr.type() != MrType::SgGaps) {
    return fail(ErrorCode::InvalidArgument, "the region is not for one list");
  }
  if (mr.type() == MrType::MemoryRegistration &&
      (!std::has_single_bit(page_size) || (device.attributes().page_size_mask & page_size) == 0)) {
    return fail(ErrorCode::InvalidArgument, "the device has no pages of {} bytes", page_size);
  }
  mr.page_size = page_size;
  return device.operations().map_mr_sg(mr, list, offset);
}

Result<void> map_mr_sg_pi(Mr& mr, const MappedList& data, const MappedList& meta,
                          std::uint32_t page_size) {
  if (mr.type() != MrType::Integrity) {
    return fail(ErrorCode::InvalidArgument, "the region is none with protection information");
  }
  mr.page_size = page_size;
  return mr.device().operations().map_mr_sg_pi(mr, data, meta);
}

Result<SignatureStatus> check_mr_status(Mr& mr) {
  if (mr.device().operations().check_mr_status == nullptr) {
    return fail(ErrorCode::NotSupported, "{} checks no signatures", mr.device().name());
  }
  return mr.device().operations().check_mr_status(mr);
}

Result<Mw*> allocate_mw(Pd& pd, MwType type) {
  Device& device = pd.device();
  if (device.operations().allocate_mw == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no memory windows", device.name());
  }
  auto mw = std::make_unique<Mw>(pd, type);
  if (const auto made = device.operations().allocate_mw(*mw); !made) {
    return std::unexpected(made.error());
  }
  pd.hold();
  device.add_resource(*mw);
  return mw.release();
}

Result<void> deallocate_mw(Mw& mw) {
  Device& device = mw.device();
  if (auto gone = device.operations().deallocate_mw(mw); !gone) {
    return gone;
  }
  device.remove_resource(mw);
  mw.pd().put();
  std::unique_ptr<Mw>{&mw}.reset();
  return {};
}

}  // namespace weft::core
