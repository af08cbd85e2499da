#include "wire/cm/cm_codes.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

TEST(CmCodes, HaveNamesForWhatIsDefinedAndNothingElse) {
  for (unsigned reason = 0; reason < 0x100; ++reason) {  // IBTA vol 1 §12.6.7
    const bool is_defined = (reason >= 1 && reason <= 33) || reason == 35;
    EXPECT_EQ(name_of(static_cast<RejectReason>(reason)).empty(), !is_defined) << reason;
  }
  for (unsigned status = 0; status < 0x100; ++status) {
    EXPECT_EQ(name_of(static_cast<AprStatus>(status)).empty(), status > 13) << status;
    EXPECT_EQ(name_of(static_cast<SidrStatus>(status)).empty(), status > 5) << status;
  }
  for (unsigned attribute = 0; attribute < 0x100; ++attribute) {
    EXPECT_EQ(name_of(static_cast<CmAttribute>(attribute)).empty(),
              attribute < 0x10 || attribute > 0x1A)
        << attribute;
  }
  EXPECT_EQ(name_of(CmAttribute::Apr), "APR");
  EXPECT_EQ(name_of(RejectReason::StaleConnection), "stale connection");
}

}  // namespace
}  // namespace weft::wire
