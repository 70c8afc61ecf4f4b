//===- TensorsTest.cpp - Tensors and DLPack --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Modules.h"

#include "lib/Formats/DLPack.h"

#include <limits>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DLPack, RoundTripWithoutCopying) {
  TensorPointer tensor = tensorOf<float>(ITX_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  void *data = itx_tensor_data(tensor.get());
  DLManagedTensor *managed = nullptr;
  ASSERT_EQ(itx_tensor_to_dlpack(tensor.get(), &managed), ITX_OK);
  EXPECT_EQ(managed->dl_tensor.data, data);
  EXPECT_EQ(managed->dl_tensor.ndim, 2);
  EXPECT_EQ(managed->dl_tensor.strides[0], 3);
  EXPECT_EQ(managed->dl_tensor.dtype.bits, 32);
  tensor.reset(); // the memory lives on
  itx_tensor *back = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack(managed, &back), ITX_OK);
  TensorPointer owner(back);
  EXPECT_EQ(itx_tensor_data(back), data);
  EXPECT_EQ(static_cast<float *>(data)[5], 6);
  DLManagedTensorVersioned *versioned = nullptr;
  ASSERT_EQ(itx_tensor_to_dlpack_versioned(back, &versioned), ITX_OK);
  EXPECT_EQ(versioned->version.major, 1u);
  itx_tensor *again = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack_versioned(versioned, &again), ITX_OK);
  EXPECT_EQ(itx_tensor_data(again), data);
  itx_tensor_free(again);
}

TEST(DLPack, ReadOnlyStaysReadOnly) {
  float values[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3}, turned[] = {1, 2};
  DLManagedTensorVersioned source = {};
  source.version = {1, 0};
  source.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  source.dl_tensor = {values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  itx_tensor *tensor = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack_versioned(&source, &tensor), ITX_OK) << itx_last_error();
  TensorPointer owner(tensor);
  DLManagedTensorVersioned *versioned = nullptr;
  ASSERT_EQ(itx_tensor_to_dlpack_versioned(tensor, &versioned), ITX_OK);
  EXPECT_EQ(versioned->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  versioned->deleter(versioned);
  DLManagedTensor *managed = nullptr;
  EXPECT_EQ(itx_tensor_to_dlpack(tensor, &managed), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), AllOf(HasSubstr("read-only"), HasSubstr("_versioned")));
  EXPECT_EQ(managed, nullptr);

  source.dl_tensor.strides = turned; // is copied, and the copy is ours
  ASSERT_EQ(itx_tensor_from_dlpack_versioned(&source, &tensor), ITX_OK) << itx_last_error();
  TensorPointer copy(tensor);
  ASSERT_EQ(itx_tensor_to_dlpack_versioned(tensor, &versioned), ITX_OK);
  EXPECT_EQ(versioned->flags, 0u);
  versioned->deleter(versioned);
}

namespace {
/// A DLPack tensor that counts its deletions.
struct Foreign {
  DLManagedTensor managed = {};
  std::vector<int32_t> values = {0, 1, 2, 3, 4, 5};
  std::vector<int64_t> shape, strides;
  int deleted = 0;
  Foreign(std::vector<int64_t> shapeGiven, std::vector<int64_t> stridesGiven)
      : shape(std::move(shapeGiven)), strides(std::move(stridesGiven)) {
    managed.dl_tensor = {values.data(),
                         {kDLCPU, 0},
                         int32_t(shape.size()),
                         {kDLInt, 32, 1},
                         shape.data(),
                         strides.empty() ? nullptr : strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor *self) { ++static_cast<Foreign *>(self->manager_ctx)->deleted; };
  }
};
} // namespace

TEST(DLPack, TransposedIsCopied) {
  Foreign foreign({3, 2}, {1, 3});
  itx_tensor *tensor = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack(&foreign.managed, &tensor), ITX_OK) << itx_last_error();
  EXPECT_EQ(foreign.deleted, 1);
  const auto *values = static_cast<int32_t *>(itx_tensor_data(tensor));
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(values[i], i % 2 * 3 + i / 2);
  itx_tensor_free(tensor);
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, DenseForms) {
  for (const std::vector<int64_t> &strides : {std::vector<int64_t>{}, {6, 3, 1}, {77, 3, 1}}) {
    Foreign foreign({1, 2, 3}, strides);
    foreign.managed.dl_tensor.data = foreign.values.data() - 2;
    foreign.managed.dl_tensor.byte_offset = 8;
    itx_tensor *tensor = nullptr;
    ASSERT_EQ(itx_tensor_from_dlpack(&foreign.managed, &tensor), ITX_OK);
    EXPECT_EQ(itx_tensor_data(tensor), foreign.values.data());
    EXPECT_EQ(foreign.deleted, 0);
    itx_tensor_free(tensor);
    EXPECT_EQ(foreign.deleted, 1);
  }
}

TEST(DLPack, RefusedTensorsStayTheCallers) {
  itx_tensor *tensor = nullptr;
  Foreign device({6}, {}), type({6}, {}), negative({-6}, {});
  device.managed.dl_tensor.device.device_type = 2;
  EXPECT_EQ(itx_tensor_from_dlpack(&device.managed, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("device type 2 (CUDA)"));
  type.managed.dl_tensor.dtype = {5, 64, 1};
  EXPECT_EQ(itx_tensor_from_dlpack(&type.managed, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("complex64"));
  EXPECT_EQ(itx_tensor_from_dlpack(&negative.managed, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(device.deleted + type.deleted + negative.deleted, 0);
  EXPECT_EQ(tensor, nullptr);
}

TEST(DLPack, MalformedTensorsAreRefused) {
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  auto messageOf = [](Foreign &foreign) {
    itx_tensor *tensor = nullptr;
    EXPECT_EQ(itx_tensor_from_dlpack(&foreign.managed, &tensor), ITX_INVALID_ARGUMENT);
    EXPECT_EQ(tensor, nullptr);
    EXPECT_EQ(foreign.deleted, 0);
    return std::string(itx_last_error());
  };
  Foreign shapeless({2, 3}, {}), far({6}, {}), farther({6}, {});
  shapeless.managed.dl_tensor.shape = nullptr;
  EXPECT_EQ(messageOf(shapeless), "the DLPack tensor has rank 2, its shape is null");
  far.managed.dl_tensor.byte_offset = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(messageOf(far), HasSubstr("byte_offset of 18446744073709551615"));
  farther.managed.dl_tensor.byte_offset = std::numeric_limits<uint64_t>::max() / 2 + 1;
  farther.managed.dl_tensor.data = reinterpret_cast<void *>(std::numeric_limits<uintptr_t>::max() / 2 + 1);
  EXPECT_THAT(messageOf(farther), HasSubstr("byte_offset"));
  for (std::vector<int64_t> strides :
       {std::vector{huge, int64_t(1)}, {huge / 4 + 1, 1}, {-huge - 1, 1}, {huge, huge}}) {
    Foreign foreign({2, 3}, strides);
    EXPECT_THAT(messageOf(foreign), HasSubstr("a stride")) << strides[0];
  }
}

TEST(DLPack, StridesThatNoElementNeedsAreIgnored) {
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  for (std::vector<int64_t> shape : {std::vector<int64_t>{1, 3}, {0, 3}}) {
    Foreign foreign(shape, {huge, 2});
    itx_tensor *tensor = nullptr;
    ASSERT_EQ(itx_tensor_from_dlpack(&foreign.managed, &tensor), ITX_OK) << itx_last_error();
    for (int64_t i = 0; i < itx_tensor_elements(tensor); ++i)
      EXPECT_EQ(static_cast<int32_t *>(itx_tensor_data(tensor))[i], foreign.values[2 * i]);
    itx_tensor_free(tensor);
  }
}

TEST(Tensor, BadArguments) {
  itx_tensor *tensor = nullptr;
  int64_t negative[] = {2, -1}, huge[] = {int64_t(1) << 40, int64_t(1) << 40}, large[] = {int64_t(1) << 58};
  EXPECT_EQ(itx_tensor_create(ITX_F32, 2, negative, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create(ITX_F32, 2, huge, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create(ITX_F32, 1, large, nullptr, &tensor), ITX_OUT_OF_MEMORY);
  EXPECT_EQ(itx_tensor_create(itx_dtype(99), 0, nullptr, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create(ITX_F32, 17, nullptr, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_wrap(nullptr, ITX_F32, 0, nullptr, nullptr, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(tensor, nullptr);
  itx_tensor_free(nullptr);
  EXPECT_EQ(itx_dtype_name(itx_dtype(99)), nullptr);
  EXPECT_STREQ(itx_dtype_name(ITX_BF16), "bf16");
}
